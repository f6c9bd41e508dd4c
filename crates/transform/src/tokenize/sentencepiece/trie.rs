//! A trie in two flat arrays: finds which of many byte strings a text starts with.

/// Maps byte strings to numbers.
pub(super) struct Trie {
    nodes: Vec<Node>,
    /// (byte, child) pairs; each node's edges are contiguous and sorted.
    edges: Vec<(u8, u32)>,
}

#[derive(Clone, Copy, Default)]
struct Node {
    first: u32,
    count: u16,
    value: Option<u32>,
}

impl Trie {
    /// From `keys` in any order; the first of equal keys wins.
    pub(super) fn new(mut keys: Vec<(&[u8], u32)>) -> Self {
        keys.sort_by_key(|(key, _)| *key);
        let mut trie = Self { nodes: vec![Node::default()], edges: Vec::new() };
        // Nodes without edges yet: node, depth, and the keys below it.
        let mut open = vec![(0usize, 0usize, &keys[..])];
        while let Some((node, depth, mut keys)) = open.pop() {
            let first = u32::try_from(trie.edges.len()).unwrap_or(u32::MAX);
            let mut value = None;
            while let Some(((key, number), rest)) = keys.split_first() {
                let Some(byte) = key.get(depth).copied() else {
                    value = value.or(Some(*number));
                    keys = rest;
                    continue;
                };
                let (through, others) =
                    keys.split_at(keys.partition_point(|(key, _)| key.get(depth).is_some_and(|b| *b <= byte)));
                open.push((trie.nodes.len(), depth + 1, through));
                trie.edges.push((byte, u32::try_from(trie.nodes.len()).unwrap_or(u32::MAX)));
                trie.nodes.push(Node::default());
                keys = others;
            }
            let count = u16::try_from(trie.edges.len() - usize::try_from(first).unwrap_or(0)).unwrap_or(u16::MAX);
            if let Some(made) = trie.nodes.get_mut(node) {
                *made = Node { first, count, value };
            }
        }
        trie
    }

    /// The keys that `text` starts with: length and number of each, shortest first.
    pub(super) fn prefixes<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = (usize, u32)> + 'a {
        let mut node = self.nodes.first();
        let walk = text.iter().map_while(move |byte| {
            node = self.next(node?, *byte);
            node.map(|node| node.value)
        });
        (1..).zip(walk).filter_map(|(length, value)| Some((length, value?)))
    }

    fn next(&self, node: &Node, byte: u8) -> Option<&Node> {
        let first = usize::try_from(node.first).ok()?;
        let edges = self.edges.get(first..first + usize::from(node.count))?;
        // Most nodes have few edges; the root has many.
        let found = edges.binary_search_by_key(&byte, |(byte, _)| *byte).ok()?;
        self.nodes.get(usize::try_from(edges.get(found)?.1).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_prefixes_are_found() {
        let keys: [&[u8]; 6] = [b"b", b"ab", b"abcd", b"\xff", b"a\0", b"ab"];
        let trie = Trie::new(keys.into_iter().zip(10..).collect());
        let find = |text: &[u8]| trie.prefixes(text).collect::<Vec<_>>();
        assert_eq!(find(b"abcde"), [(2, 11), (4, 12)]);
        assert_eq!(find(b"a\0"), [(2, 14)]);
        assert_eq!(find(b"\xff\xff"), [(1, 13)]);
        assert_eq!((find(b""), find(b"x")), (vec![], vec![]));
        assert_eq!(Trie::new(Vec::new()).prefixes(b"x").count(), 0);
    }
}
