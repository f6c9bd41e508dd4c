"""Just enough YAML and brace notation to read Energon's split.yaml and dataset.yaml without a package."""

import re


def parse_value(text):
    """A YAML scalar or flow list of scalars, as split.yaml uses them."""
    text = text.strip()
    if text.startswith("["):
        return [parse_value(item) for item in text.strip("[]").split(",") if item.strip()]
    return text.strip("\"'")


def parse_yaml(text):
    """The small part of YAML that Energon's files need: block maps, and block or flow lists of plain words."""
    lines = [(len(line) - len(line.lstrip()), line.strip()) for line in text.splitlines() if line.split("#")[0].strip()]
    lines.reverse()

    def block_list(indent):
        items = []
        while lines and lines[-1][0] == indent and lines[-1][1].startswith("- "):
            items.append(parse_value(lines.pop()[1][2:]))
        return items

    def block_map(indent):
        result = {}
        while lines and lines[-1][0] == indent and not lines[-1][1].startswith("- "):
            name, _, rest = lines.pop()[1].partition(":")
            if rest.strip():
                value = parse_value(rest)
            elif lines and lines[-1][1].startswith("- ") and lines[-1][0] >= indent:
                value = block_list(lines[-1][0])
            else:
                value = block_map(lines[-1][0]) if lines and lines[-1][0] > indent else None
            result[parse_value(name)] = value
        return result

    return block_map(0)


def brace_expand(name):
    """Expands {000000..000012} ranges and {a,b} lists."""
    match = re.search(r"\{([^{}]*)\}", name)
    if not match:
        return [name]
    span = re.fullmatch(r"(\d+)\.\.(\d+)", match.group(1))
    if span:
        first, last = span.groups()
        words = [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    else:
        words = match.group(1).split(",")
    return [full for word in words for full in brace_expand(name[: match.start()] + word + name[match.end() :])]
