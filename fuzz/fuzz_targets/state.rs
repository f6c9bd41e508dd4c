//! States of an order of samples from arbitrary text: a bad one is an error, and one that can be read is the same after
//! it is written again. Shuffles and ranks of the environment, too.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packhorse_core::Kind;
use packhorse_order::{OrderState, Rank, Shuffle};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match OrderState::from_json(text) {
        Ok(state) => {
            assert!(state.consumed <= state.samples);
            let again = OrderState::from_json(&state.to_json()).expect("round trip");
            assert_eq!(again, state);
            assert!(state.check(&again).is_ok());
        }
        Err(error) => assert_eq!(error.kind(), Kind::Config),
    }
    if let Ok(shuffle) = text.parse::<Shuffle>() {
        assert_eq!(shuffle.to_string().parse::<Shuffle>().expect("round trip"), shuffle);
    }
    let mut words = text.split('\n');
    let (rank, ranks) = (words.next(), words.next());
    let var = |name: &str| match name {
        "RANK" => rank.map(str::to_owned),
        "WORLD_SIZE" => ranks.map(str::to_owned),
        _ => None,
    };
    if let Ok(rank) = Rank::from_environment(&var) {
        assert!(rank.rank < rank.world_size);
    }
});
