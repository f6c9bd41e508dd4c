//! Reading.
#![expect(dead_code, unused_variables, clippy::print_stdout, reason = "compiled, not run")]

use packhorse::core::Result;
use packhorse::read::Batch;
use packhorse::transform::image::View;

fn train<H: AsRef<[u8]>>(batch: &Batch<H>) {}

fn readme() -> Result<()> {
    let loader = packhorse::open("my-shards")?
        .loader(256)
        .image("image", "jpg;jpeg;png", View::random_crop(224).flip(0.5))
        .field("label", "cls")
        .seed(7)
        .build()?;
    for batch in loader {
        train(&batch?);
    }
    Ok(())
}

fn reading() -> Result<()> {
    let loader = packhorse::open("shards")?
        .split("train")?
        .loader(256)
        .image("image", "jpg;jpeg;png", View::random_crop(224).flip(0.5))
        .field("label", "cls")
        .seed(7)
        .build()?;
    for batch in loader {
        let batch = batch?;
        let pixels = batch.field("image");
        let labels = batch.integers("label");
    }
    Ok(())
}

fn masks() -> Result<()> {
    let view = View::random_crop(224).flip(0.5);
    let loader = packhorse::open("shards")?
        .loader(64)
        .image("image", "jpg", view)
        .mask("mask", "seg.png", view)
        .seed(7)
        .build()?;
    Ok(())
}

fn diagnose() -> Result<()> {
    use packhorse::read::HostSlab;
    use packhorse::read::diagnose::DiagnoseOptions;

    let mut step = |batch: &Batch<HostSlab>| {
        train(batch);
        Ok(())
    };
    let loader = packhorse::open("shards")?.loader(256).image("image", "jpg", View::random_crop(224));
    let found = loader.diagnose(&mut step, &DiagnoseOptions::default())?;
    let table = found.to_string();
    Ok(())
}

fn views() -> Result<()> {
    let train = packhorse::open("shards")?.without_fold(1, 5, 7)?;
    let cats = train.filter(&"cls == 3".parse()?)?.select(&["jpg", "cls"])?;
    cats.write_view("cats")?;
    Ok(())
}

fn nodes() -> Result<()> {
    use packhorse::read::cache::DirOptions;
    use packhorse::read::{CacheOptions, order::Shuffle};

    let loader = packhorse::open("s3://bucket/shards")?
        .loader(64)
        .shuffle(Shuffle::Nodes { nodes: 16, shards: 16, window: None, epochs: 10 })
        .cache(CacheOptions { dir: Some(DirOptions::new("/local/shards")), ..CacheOptions::default() })
        .build()?;
    Ok(())
}

fn text_to_tokens() -> Result<()> {
    let loader = packhorse::open_tokens("data/corpus")?.loader(64, 4096).seed(1234).build()?;
    for batch in loader {
        let batch = batch?;
        let tokens = batch.field("tokens");
    }
    Ok(())
}

fn observing(loader: packhorse::read::Loader<packhorse::read::Host>) {
    use std::time::Duration;

    let counters = loader.counters();
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(Duration::from_secs(60));
            println!("{} batches were late", counters.stats().late);
        }
    });
}

fn remote() -> Result<()> {
    use packhorse::storage::{Location, RemoteOptions, Stores};

    let stores = Stores::new(RemoteOptions::default());
    let root = Location::parse("s3://bucket/data/shards")?;
    let (store, path) = stores.open(&root.join("train-000000.tar")?)?;
    let input = store.open(&path)?;
    Ok(())
}
