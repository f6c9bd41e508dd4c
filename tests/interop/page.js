// Opens pages in headless Chromium, in light and dark, wide and narrow, and prints a line of JSON for each: errors, requests to anywhere, whether it has to
// be scrolled sideways, and what axe-core finds.
//
//     node tests/interop/page.js CHROMIUM PAGE...
//
// Needs playwright-core and axe-core, by NODE_PATH.
const { chromium } = require("playwright-core");

async function look(browser, page, colorScheme, width) {
  const tab = await browser.newPage({ colorScheme, viewport: { width, height: 900 } });
  const errors = [];
  const requests = [];
  tab.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  tab.on("pageerror", (error) => errors.push(String(error)));
  tab.on("request", (request) => /^(data|file):/.test(request.url()) || requests.push(request.url()));
  await tab.goto(`file://${page}`);
  const overflow = await tab.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  const broken = await tab.evaluate(() => [...document.images].filter((image) => image.complete && !image.naturalWidth).length);
  await tab.addScriptTag({ path: require.resolve("axe-core") });
  const found = await tab.evaluate(() => axe.run());
  const violations = found.violations.map(({ id, impact, nodes }) => `${id} (${impact}): ${nodes[0].html.slice(0, 200)}`);
  await tab.close();
  return { page, colorScheme, width, errors, requests, overflow, broken, violations };
}

async function main() {
  const [executablePath, ...pages] = process.argv.slice(2);
  const quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"];
  const browser = await chromium.launch({ executablePath, args: quiet });
  for (const page of pages) {
    for (const [colorScheme, width] of [["light", 1200], ["dark", 1200], ["light", 400], ["dark", 400]]) {
      console.log(JSON.stringify(await look(browser, page, colorScheme, width)));
    }
  }
  await browser.close();
}

main();
