//! The PTX is up to date with its sources, and an assembler accepts it.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failure here fails the test, or is skipped with a message"
)]

use packhorse_gpu::kernels::Module;
use packhorse_testkit::external::python;
use std::path::{Path, PathBuf};
use std::process::Command;

fn kernels() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels")
}

/// Files of the kernels with this suffix, sorted by name.
fn files(end: &str) -> Vec<PathBuf> {
    let files = std::fs::read_dir(kernels()).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<_> = files.filter(|path| path.to_str().unwrap().ends_with(end)).collect();
    files.sort();
    files
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

/// FNV-1a (64 bits), as in `compile.py`.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// Each PTX begins with a digest of its inputs: the compiler's options, all headers, the source.
#[test]
fn it_is_of_these_sources() {
    let script = String::from_utf8(read(&kernels().join("compile.py"))).unwrap();
    let (_, options) = script.split_once("\nOPTIONS = [").unwrap();
    let options: Vec<&str> = options.split_once(']').unwrap().0.split('"').skip(1).step_by(2).collect();
    let headers = files(".cuh").iter().map(|path| read(path)).collect::<Vec<_>>();
    let sources = files(".cu");
    assert_eq!(sources.len(), Module::ALL.len(), "a source without a module, or a module without a source");
    for module in Module::ALL {
        let source = read(&kernels().join(format!("{}.cu", module.name())));
        let texts = [&[options.join(" ").into_bytes()], &headers[..], &[source]].concat();
        let wanted = format!("// sources {:016x}", fnv(&texts.join(&0)));
        let found = module.ptx().lines().next().unwrap();
        assert_eq!(found, wanted, "{}.ptx is of other sources: run kernels/compile.py", module.name());
        assert!(module.ptx().contains("\n.version 8.0\n.target sm_75\n"));
    }
}

/// Compiling the sources again gives the same bytes.
#[test]
fn it_comes_out_the_same_again() {
    let Some(python) = python() else { return };
    let output = Command::new(python).arg(kernels().join("compile.py")).arg("--check").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(3) => packhorse_testkit::external::skip(&format!("{said}")),
        _ => assert!(output.status.success(), "{said}"),
    }
}

/// The assembler of the wheel nvidia-cuda-nvcc-cu12, if installed.
fn ptxas() -> Option<PathBuf> {
    let script =
        "import importlib.util as i; print(list(i.find_spec('nvidia.cuda_nvcc').submodule_search_locations)[0])";
    let output = Command::new(python()?).args(["-c", script]).output().unwrap();
    let folder = String::from_utf8(output.stdout).unwrap();
    let ptxas = Path::new(folder.trim()).join("bin/ptxas");
    if !ptxas.is_file() {
        packhorse_testkit::external::skip("no nvidia-cuda-nvcc-cu12 with a ptxas");
        return None;
    }
    Some(ptxas)
}

/// For all GPU generations that the assembler supports: it accepts the PTX, and keeps hardly any registers in memory.
#[test]
fn it_assembles() {
    let Some(ptxas) = ptxas() else { return };
    let folder = tempfile::tempdir().unwrap();
    for module in Module::ALL {
        let file = folder.path().join(module.name());
        std::fs::write(&file, module.ptx()).unwrap();
        for target in ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90"] {
            let output = Command::new(&ptxas).args(["-v", "-o", "/dev/null", "-arch", target]).arg(&file).output();
            let output = output.unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{} for {target}: {said}", module.name());
            report(&said, module, target);
        }
    }
}

fn report(said: &str, module: Module, target: &str) {
    let stacks: Vec<&str> = said.lines().filter(|line| line.contains("stack frame")).collect();
    for stack in &stacks {
        let bytes: Vec<u32> = stack.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        // The assembler keeps a value or two in memory where another block fits then.
        assert!(bytes.len() == 3 && bytes.iter().all(|bytes| *bytes <= 16), "{} for {target}: {said}", module.name());
    }
    let registers = |line: &str| line.split_once("Used ")?.1.split_once(' ')?.0.parse::<u32>().ok();
    let most = said.lines().filter_map(registers).max().unwrap();
    println!("{} for {target}: {} kernels, {most} registers at most", module.name(), stacks.len());
    assert!(most <= 80, "too many for three blocks of 256 on a processor");
}
