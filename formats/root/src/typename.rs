//! C++ types by their names: numbers, strings, and collections of those inside each other.

use crate::element::Element;

/// What one value is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Type {
    Number(Element),
    /// `std::string` or `TString`.
    Text,
    /// A `std::vector`, or another collection that is stored in the same way.
    List(Box<Type>),
}

const COLLECTIONS: [&str; 10] = [
    "vector",
    "list",
    "deque",
    "forward_list",
    "set",
    "multiset",
    "unordered_set",
    "unordered_multiset",
    "RVec",
    "ROOT::VecOps::RVec",
];

/// Lists inside each other that someone may want.
const DEPTH: usize = 8;

impl Type {
    /// The type called `name`; `None` if it is a class, a map, or anything else.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let name: String = name.split_whitespace().filter(|word| *word != "const").collect();
        Self::parse_within(&name.replace("std::", ""), DEPTH)
    }

    fn parse_within(name: &str, depth: usize) -> Option<Self> {
        if let Some(number) = Element::of_type(name) {
            return Some(Type::Number(number));
        }
        if matches!(name, "string" | "TString") {
            return Some(Type::Text);
        }
        let (outer, inner) = name.strip_suffix('>')?.split_once('<')?;
        let depth = depth.checked_sub(1)?;
        if !COLLECTIONS.contains(&outer) {
            return None;
        }
        Self::parse_within(first_argument(inner), depth).map(|inner| Type::List(Box::new(inner)))
    }
}

/// Up to the first comma that is not inside angles: what follows are allocators and orders.
fn first_argument(arguments: &str) -> &str {
    let mut depth = 0usize;
    let end = arguments.find(|c| {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    end.and_then(|end| arguments.get(..end)).unwrap_or(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(name: &str) -> Option<String> {
        fn show(found: &Type) -> String {
            match found {
                Type::Number(element) => element.data_type.to_string(),
                Type::Text => "text".to_owned(),
                Type::List(inner) => format!("[{}]", show(inner)),
            }
        }
        Type::parse(name).map(|found| show(&found))
    }

    #[test]
    fn names_of_types() {
        for (name, wanted) in [
            ("vector<unsigned int>", Some("[UInt32]")),
            ("std::vector<std::vector<float> >", Some("[[Float32]]")),
            ("vector<Long64_t,allocator<Long64_t> >", Some("[Int64]")),
            ("vector<set<string>,allocator<set<string> > >", Some("[[text]]")),
            ("const string", Some("text")),
            ("map<int,float>", None),
            ("vector<TLorentzVector>", None),
            ("vector<float*>", None),
            ("vector<Double32_t>", None),
            ("vector<", None),
            ("", None),
        ] {
            assert_eq!(shown(name).as_deref(), wanted, "{name}");
        }
        assert!(Type::parse(&format!("{}int{}", "vector<".repeat(5000), ">".repeat(5000))).is_none());
    }
}
