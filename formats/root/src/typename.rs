//! Parses the names of C++ types: numbers, strings, classes, and nested collections of them.

use crate::element::NumberType;

/// A C++ type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Type {
    Number(NumberType),
    /// `TString`.
    Text,
    /// `std::string`.
    StdText,
    /// `char*`.
    LongText,
    /// `std::bitset`.
    Bits,
    /// A `std::vector`, or another collection with the same encoding.
    List(Box<Type>),
    /// A `std::map`, or another collection of pairs.
    Map(Box<Type>, Box<Type>),
    /// Any other class.
    Class(String),
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

const MAPS: [&str; 4] = ["map", "multimap", "unordered_map", "unordered_multimap"];

/// The deepest nesting of collections.
const DEPTH: usize = 8;

impl Type {
    /// Parses `name`; `None` if it is a pointer or not a valid type name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let name: String = name.split_whitespace().filter(|word| *word != "const").collect();
        Self::parse_within(&name.replace("std::", ""), DEPTH)
    }

    fn parse_within(name: &str, depth: usize) -> Option<Self> {
        if let Some(number) = NumberType::of_type(name) {
            return Some(Type::Number(number));
        }
        match name {
            "TString" => return Some(Type::Text),
            "string" => return Some(Type::StdText),
            "char*" => return Some(Type::LongText),
            _ => {}
        }
        let Some((outer, inner)) = name.split_once('<') else {
            return is_name(name).then(|| Type::Class(name.to_owned()));
        };
        let inner = inner.strip_suffix('>')?;
        let depth = depth.checked_sub(1)?;
        let (first, rest) = first_argument(inner);
        if outer == "bitset" {
            return first.parse::<u32>().ok().map(|_| Type::Bits);
        }
        if COLLECTIONS.contains(&outer) {
            return Self::parse_within(first, depth).map(|inner| Type::List(Box::new(inner)));
        }
        if MAPS.contains(&outer) {
            let (second, _) = first_argument(rest);
            let (key, value) = (Self::parse_within(first, depth)?, Self::parse_within(second, depth)?);
            return Some(Type::Map(Box::new(key), Box::new(value)));
        }
        is_name(outer).then(|| Type::Class(name.to_owned()))
    }
}

/// Whether `name` is an identifier, optionally with namespaces.
fn is_name(name: &str) -> bool {
    let first = name.starts_with(|c: char| c.is_alphabetic() || c == '_');
    first && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == ':')
}

/// The first template argument, and the rest: allocators and orders, or the values of a map.
fn first_argument(arguments: &str) -> (&str, &str) {
    let mut depth = 0usize;
    let end = arguments.find(|c| {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    end.and_then(|end| Some((arguments.get(..end)?, arguments.get(end + 1..)?))).unwrap_or((arguments, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(name: &str) -> Option<String> {
        fn show(found: &Type) -> String {
            match found {
                Type::Number(element) => element.data_type.to_string(),
                Type::Text => "TString".to_owned(),
                Type::StdText | Type::LongText => "text".to_owned(),
                Type::Bits => "bits".to_owned(),
                Type::List(inner) => format!("[{}]", show(inner)),
                Type::Map(key, value) => format!("{{{}: {}}}", show(key), show(value)),
                Type::Class(name) => name.clone(),
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
            ("map<int,float>", Some("{Int32: Float32}")),
            ("map<string,vector<short>,less<string> >", Some("{text: [Int16]}")),
            ("vector<TLorentzVector>", Some("[TLorentzVector]")),
            ("vector<vector<ElementLink<xAOD::Jet_v1> > >", Some("[[ElementLink<xAOD::Jet_v1>]]")),
            ("vector<bitset<9> >", Some("[bits]")),
            ("char*", Some("text")),
            ("vector<float*>", None),
            ("map<int>", None),
            ("bitset<int>", None),
            ("Event*", None),
            ("x y", Some("xy")),
            ("a-b", None),
            ("vector<Double32_t>", Some("[Double32_t]")),
            ("vector<", None),
            ("", None),
        ] {
            assert_eq!(shown(name).as_deref(), wanted, "{name}");
        }
        assert!(Type::parse(&format!("{}int{}", "vector<".repeat(5000), ">".repeat(5000))).is_none());
    }
}
