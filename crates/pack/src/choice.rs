//! Enums that are one word of text, declared once: the words that are parsed, shown, and listed among a setting's values.

/// Implements `Display`, `FromStr` and `WORDS` for an enum: each variant with its word.
macro_rules! choice {
    ($type:ident: $($variant:ident = $word:literal),+ $(,)?) => {
        impl $type {
            /// The words, in the order of the variants.
            pub(crate) const WORDS: &'static [&'static str] = &[$($word),+];
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self { $(Self::$variant => $word),+ })
            }
        }

        impl std::str::FromStr for $type {
            type Err = packhorse_core::Error;

            fn from_str(text: &str) -> packhorse_core::Result<Self> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => {
                        let message = format!("takes {}, not \"{text}\"", Self::WORDS.join(" or "));
                        Err(packhorse_core::Error::config(message))
                    }
                }
            }
        }
    };
}

pub(crate) use choice;
