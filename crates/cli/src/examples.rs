//! The text after the flags in help: examples of each command.

pub(crate) const SHORT_HELP: &str = "--help shows all flags, with examples.";

pub(crate) const PACK_EXAMPLES: &str = "\
Examples:
  packhorse pack photos --to webdataset --out shards
  packhorse pack photos --to webdataset --out shards --labels folders --shuffle 7 --shard-size 500MB
  packhorse pack photos --to webdataset --out shards --image resize=256 --split train=0.9,val=0.1
  packhorse pack old-shards/*.tar --to webdataset --out shards --index wids,dali,energon
  find photos -name '*.jpg' -print0 | packhorse pack --files-from - --to webdataset --out shards
  packhorse pack --plan shards --part 3/16

If it stops or fails, run the same command again: finished shards are kept.";

pub(crate) const SCAN_EXAMPLES: &str = "\
Examples:
  packhorse scan photos --to webdataset --out shards --part 3/64
  sbatch --array=1-64 --wrap 'exec packhorse scan photos --to webdataset --out shards'
  packhorse plan photos --to webdataset --out shards --from-listings

Give each part the same flags as the plan. The listings are in OUT/.listings until the dataset is sealed.
If a part fails or is stopped, run its command again.";

pub(crate) const PLAN_EXAMPLES: &str = "\
Examples:
  packhorse plan photos --to webdataset --out shards --labels folders --dry-run
  packhorse plan photos --to webdataset --out shards --labels folders
  packhorse plan photos --to webdataset --out shards --from-listings
  sbatch --array=1-16 --wrap 'exec packhorse pack --plan shards'
  packhorse seal shards";

pub(crate) const APPEND_EXAMPLES: &str = "\
Examples:
  packhorse append shards photos-of-may
  packhorse append shards photos-of-may --labels folders --dry-run
  packhorse append shards photos-of-may --plan-only

Format, transforms, sizes, shuffle and splits come from the dataset. Give the flags that say how to read inputs
again, as when it was packed: --labels, --include, --metadata. If it stops or fails, run the same command again.";

pub(crate) const SLURM_EXAMPLES: &str = "\
Examples:
  packhorse slurm pack photos --to webdataset --out shards --tasks 64 > pack.sbatch
  packhorse slurm pack photos --to webdataset --out shards --tasks 64 --submit -- --partition=cpu --account=me
  packhorse slurm pack photos --to webdataset --out shards --tasks 2 --local
  packhorse status shards --watch
  packhorse slurm resume shards -- --partition=cpu

Set site defaults in /etc/packhorse/slurm.toml and ~/.config/packhorse/slurm.toml: options of sbatch as keys, such as
partition = \"cpu\", and setup, a list of shell commands.";

pub(crate) const PBS_EXAMPLES: &str = "\
Examples:
  packhorse pbs pack photos --to webdataset --out shards --tasks 64 > pack.pbs
  packhorse pbs pack photos --to webdataset --out shards --submit -- -q prod -A proj -l filesystems=home:eagle

Set site defaults in /etc/packhorse/pbs.toml and ~/.config/packhorse/pbs.toml: the letters of qsub's options as keys,
such as q = \"prod\", l = [\"filesystems=home\"], and setup, a list of shell commands.";

pub(crate) const K8S_EXAMPLES: &str = "\
Examples:
  packhorse k8s pack /data/photos --to webdataset --out /data/shards --tasks 64 --container IMAGE --claim scratch=/data
  packhorse k8s pack /data/photos --to webdataset --out /data/shards --container IMAGE --claim scratch=/data --submit

Run it on a machine (such as in a pod) where the claims are mounted at the same folders.";

pub(crate) const VERIFY_EXAMPLES: &str = "\
Examples:
  packhorse verify shards
  packhorse verify shards --full
  packhorse verify others/*.tar --for webdataset,hf,dali
  packhorse verify other.idx --vocabulary 50257 --eod-id 50256";

pub(crate) const INDEX_EXAMPLES: &str = "\
Examples:
  packhorse index others
  packhorse index 'others/train-{000..127}.tar' --index wids,dali
  packhorse index others --index energon --on-error skip
  packhorse index 's3://bucket/others/*.tar'
  packhorse index 'https://host/others/train-{000..127}.tar' --out indexes

packhorse reads only headers and leaves the tars unchanged. It keeps its results in .packhorse-index beside them.
After a stop, or when tars were added, run the same command again: it reads only new and changed tars.";

pub(crate) const ADOPT_EXAMPLES: &str = "\
Examples:
  packhorse adopt others
  packhorse adopt 'others/train-{000..127}.tar'
  packhorse adopt s3://bucket/others
  packhorse verify others --full

packhorse reads every byte once and leaves the tars unchanged. If it stops or fails, run the same command again: it
does not reread tars that it has read.";

pub(crate) const MERGE_EXAMPLES: &str = "\
Examples:
  packhorse merge tokens --out data/corpus          data/corpus.bin and data/corpus.idx
  packhorse merge a.idx b.idx c.idx --out all
  packhorse merge tokens --split train --out train";

pub(crate) const ORDER_EXAMPLES: &str = "\
Examples:
  packhorse order data/corpus --seq-length 4096 --samples 100000,1000,1000 --seed 1234 --out cache
  packhorse order 0.7 data/web 0.3 data/code --seq-length 4096 --samples 500000 --out cache
  packhorse order data/corpus --pack 8192 --out packed

Megatron looks for its cache in --data-cache-path, under a name that depends on --tokenizer-id.";

pub(crate) const REPAIR_EXAMPLES: &str = "\
Examples:
  packhorse verify shards --full
  packhorse repair shards                           packs damaged shards again; the digest stays
  packhorse clean --quarantine shards               removes the damaged files that repair kept
  packhorse clean --append shards                   drops an append that is not sealed
  packhorse verify corpus.idx
  packhorse repair corpus.idx --out fixed           writes fixed.idx, for the same .bin";

pub(crate) const BATCH_EXAMPLES: &str = "\
Examples:
  packhorse batch shards --seed 7 --step 41207 --batch 256 --rank 3 --world 64
  packhorse batch shards --seed 7 --step 41207 --batch 256 --rank 3 --world 64 -o batch.html
  packhorse batch shards --seed 7 --step 41207 --batch 256 --rank 3 --world 64 --keys >> skip.txt

Give the batch size, seed, order and ranks of the loader. To leave out bad samples, pass their keys back to it:
`skip_keys` in Rust, `skip` in Python.";

pub(crate) const STAGE_EXAMPLES: &str = "\
Examples:
  packhorse stage shards --to /dev/shm/shards
  packhorse stage shards --to $SLURM_TMPDIR/shards --fraction 0.5
  packhorse stage shards --to /dev/shm/shards --verify
  packhorse stage s3://bucket/shards --to /scratch/shards --jobs 32

packhorse checks the digest of every file and gives it its name only when it is whole. If it stops or fails, run the
same command again: finished copies are kept. Several processes, such as the tasks of a node, share the work.";

pub(crate) const VIEW_EXAMPLES: &str = "\
Examples:
  packhorse view shards --out cats --where 'cls == 3 and json.width >= 256'
  packhorse view shards --out test-1 --fold 1/5 --seed 7
  packhorse view shards --out train-1 --without-fold 1/5 --seed 7
  packhorse view shards --out some --keys keys.txt --select jpg,cls
  packhorse view shards --out good --join scores.csv --where 'score >= 0.5'

Flags that choose samples apply in this order: --split, --keys or --numbers, --join, --where, --fold.
Readers open a view like a dataset.";

#[cfg(feature = "gpu")]
pub(crate) const BENCH_UPLOAD_EXAMPLES: &str = "\
Examples:
  packhorse bench upload shards --batch 256
  packhorse bench upload shards --batch 256 --augment --step 50 --jobs 16 --json
  packhorse bench upload shards --device host                 without a GPU: what the loader gives

A step does as much work as the idle GPU does in --step milliseconds. The stage device is the limit: steps on a batch
that is already on the GPU.
The stage cached sends one batch repeatedly, loader sends all of them. Their distance from the limit is the cost of
the copies, and of the loader.";

pub(crate) const DIAGNOSE_EXAMPLES: &str = "\
Examples:
  packhorse diagnose shards --size 224 --batch 256 --step-ms 180
  packhorse diagnose shards --size 224 --batch 256 --step-ms 180 --apply
  packhorse diagnose 's3://bucket/shards' --batch 64 --step-ms 40 --readers 16
  srun -n 8 packhorse diagnose shards --step-ms 180 --ranks diagnosis

Each line runs the loop with all earlier stages served from memory. If the rate falls from one line to the next, the
stage between them is slow.";

pub(crate) const BENCH_PACK_EXAMPLES: &str = "\
Examples:
  packhorse bench pack photos --to webdataset --labels folders
  packhorse bench pack photos --to webdataset --out /scratch/shards --repeat 5 --json
  packhorse bench pack runs.root --to hdf5 --out shards --keep

packhorse packs into a folder beside OUT, or in the temporary folder, and removes it. Each round also reads the same
files and writes the same bytes plainly, with one thread: the floor. An unmeasured first round brings inputs that fit
into memory.";

pub(crate) const BENCH_LIMITS_EXAMPLES: &str = "\
Examples:
  packhorse bench limits
  packhorse bench limits /scratch --size 4GiB --seconds 30
  packhorse bench limits $SLURM_TMPDIR --json

Test files are in a hidden folder of DIR and are removed afterwards, also after Ctrl-C.";

pub(crate) const BENCH_READ_EXAMPLES: &str = "\
Examples:
  packhorse bench read shards
  packhorse bench read shards --size 224 --augment --jobs 8
  packhorse bench read 'others/shard-{000..127}.tar' --json
  packhorse bench read shards --size 224 --limits

Look at the slowest stage: raw is the storage, parse finds samples, decode is the CPU work, batch is all stages
together.";
