//! The options of the source: tree, branches, and the policy for unsupported branches.

use packhorse_core::{Expansion, Options, Result, glob_matches};

/// The options of the source.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// The tree's name or path.
    pub(crate) tree: Option<String>,
    /// Names and globs of the fields to read.
    branches: Vec<String>,
    /// Names and globs, without their `!`, of the fields to exclude.
    without: Vec<String>,
    /// Whether a branch that can't be read is an error instead of omitted.
    fail: bool,
    /// How much larger than the file its rows may be.
    pub(crate) expansion: Expansion,
}

impl Wanted {
    pub(crate) fn parse(options: &Options) -> Result<Self> {
        options.only(&["tree", "branches", "unsupported", "expansion"])?;
        let fail = options.choose("unsupported", &[("skip", false), ("fail", true)])?;
        let globs = options.get("branches").unwrap_or("*").split(',').map(str::trim).filter(|name| !name.is_empty());
        let (without, mut branches): (Vec<String>, Vec<String>) =
            globs.map(str::to_owned).partition(|glob| glob.starts_with('!'));
        let without: Vec<String> = without.iter().map(|glob| glob.trim_start_matches('!').to_owned()).collect();
        if branches.is_empty() && !without.is_empty() {
            branches.push("*".to_owned());
        }
        let expansion = Expansion::parse(options)?;
        Ok(Self { tree: options.get("tree").map(str::to_owned), branches, without, fail, expansion })
    }

    /// Reads all supported branches of `tree`.
    pub(crate) fn of_tree(&self, tree: String) -> Self {
        Self { tree: Some(tree), ..self.clone() }.everything()
    }

    /// The same tree, with all branches and no error for unsupported ones.
    pub(crate) fn everything(self) -> Self {
        Self { branches: vec!["*".to_owned()], without: Vec::new(), fail: false, ..self }
    }

    /// Whether the field `name` is wanted.
    pub(crate) fn takes(&self, name: &str) -> bool {
        let fits = |glob: &String| glob_matches(glob, name);
        self.branches.iter().any(fits) && !self.without.iter().any(fits)
    }

    /// Whether the field `name` must be readable: it is named exactly, or `unsupported=fail`.
    pub(crate) fn insists(&self, name: &str) -> bool {
        self.takes(name) && (self.fail || self.branches.iter().any(|glob| glob == name))
    }

    /// A name or glob that matches none of `names`. A glob of branches to leave out may: not every file has them.
    pub(crate) fn unmatched<'a>(&self, names: impl Iterator<Item = &'a str> + Clone) -> Option<&str> {
        let fits = |glob: &&String| names.clone().any(|name| glob_matches(glob, name));
        let names_one = |glob: &&String| !glob.contains(['*', '?']);
        let mut globs = self.branches.iter().chain(self.without.iter().filter(names_one));
        globs.find(|glob| *glob != "*" && !fits(glob)).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_with_an_exclamation_mark_are_excluded() {
        let wanted = |text| Wanted::parse(&[("branches", text)].into_iter().collect()).unwrap();
        for (text, name, taken) in [
            ("*,!jets.*", "jets.pt", false),
            ("*,!jets.*", "met", true),
            ("!met", "jets.pt", true),
            ("!met", "met", false),
            ("met,!met", "met", false),
            ("jets.*", "met", false),
        ] {
            assert_eq!(wanted(text).takes(name), taken, "{text} {name}");
        }
        assert!(!wanted("met,!met").insists("met"));
        assert_eq!(wanted("*,!jet").unmatched(["jets"].into_iter()), Some("jet"));
    }
}
