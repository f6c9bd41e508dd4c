//! A builder of token loaders. Owns the default order; refuses to know the layout of an `.idx`.

use crate::loader_builder::rank_or_environment;
use crate::token_state::identify;
use crate::{Companions, Device, Host, IntArray, Remainder, TokenLoader, TokenOptions, TokenState, Tokens};
use packhorse_core::{Error, Result};
use packhorse_order::{GptIndex, GptOptions, GptOrder, Order, Rank};
use std::sync::Arc;

/// Settings of a [`TokenLoader`], made by [`Tokens::loader`]. Settings that are not given have the values of
/// [`TokenOptions::new`]; the order is that of Megatron's `GPTDataset`, rank and world size come from the environment
/// of the process, and batches stay in host memory.
#[must_use = "call build() to get the loader"]
pub struct TokenLoaderBuilder<D = Host> {
    tokens: Arc<Tokens>,
    order: Option<Arc<dyn Order>>,
    seed: u32,
    samples: Option<u64>,
    options: TokenOptions,
    rank: Option<Rank>,
    resumed: Option<TokenState>,
    device: D,
}

impl Tokens {
    /// Starts the settings of a [`TokenLoader`]: `batch` samples per batch and rank, each with `length` inputs.
    pub fn loader(self: Arc<Self>, batch: u32, length: u32) -> TokenLoaderBuilder {
        let options = TokenOptions::new(batch, length);
        TokenLoaderBuilder {
            tokens: self,
            order: None,
            seed: 0,
            samples: None,
            options,
            rank: None,
            resumed: None,
            device: Host::default(),
        }
    }
}

impl<D: Device> TokenLoaderBuilder<D> {
    /// The seed of Megatron's shuffles.
    pub fn seed(self, seed: u32) -> Self {
        Self { seed, ..self }
    }

    /// The least number of samples, as implied by Megatron's training steps; by default one epoch.
    pub fn samples(self, samples: u64) -> Self {
        Self { samples: Some(samples), ..self }
    }

    /// Takes samples in this order: a blend, a packing, or indices from a cache. Seed and samples have no effect then.
    pub fn order(self, order: Arc<dyn Order>) -> Self {
        Self { order: Some(order), ..self }
    }

    /// Adds these fields to the tokens.
    pub fn companions(self, companions: Companions) -> Self {
        self.configure(|options| options.companions = companions)
    }

    /// Resumes from `state`, which a loader of the same order returned on any number of ranks. Another order is an error of
    /// [`build`](Self::build).
    pub fn resume(self, state: &TokenState) -> Self {
        Self { resumed: Some(state.clone()), ..self }.configure(|options| options.consumed = state.consumed)
    }

    /// Loads the share of this rank, whatever the environment says.
    pub fn rank(self, rank: Rank) -> Self {
        Self { rank: Some(rank), ..self }
    }

    /// What happens to the last samples that do not fill a batch on every rank.
    pub fn remainder(self, remainder: Remainder) -> Self {
        self.configure(|options| options.remainder = remainder)
    }

    /// Pads shorter samples with this token; without it such a sample is an error.
    pub fn pad(self, token: i64) -> Self {
        self.configure(|options| options.pad = Some(token))
    }

    /// Fills batches on this many threads, and two batches more ahead than threads. With 0 the caller's thread does all
    /// work when it takes a batch.
    pub fn threads(self, threads: usize) -> Self {
        self.configure(|options| {
            options.threads = threads;
            options.ahead = threads.saturating_add(2);
        })
    }

    /// Changes any other setting. The rank is set by [`rank`](Self::rank) alone.
    pub fn configure(mut self, change: impl FnOnce(&mut TokenOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// Sends batches to `device`.
    pub fn on<E: Device>(self, device: E) -> TokenLoaderBuilder<E> {
        let Self { tokens, order, seed, samples, options, rank, resumed, .. } = self;
        TokenLoaderBuilder { tokens, order, seed, samples, options, rank, resumed, device }
    }

    /// Starts the loader.
    ///
    /// Errors: those of [`TokenLoader::tokens`] and [`GptIndex::build`]; several files without an order, a state of
    /// another order, ranks in the environment that contradict each other (kind `Config`).
    pub fn build(self) -> Result<TokenLoader<D>> {
        let order = match &self.order {
            Some(order) => Arc::clone(order),
            None => Arc::new(self.gpt()?),
        };
        if let Some(state) = &self.resumed {
            state.check(order.len(), &identify(&*order))?;
        }
        let options = TokenOptions { rank: rank_or_environment(self.rank)?, ..self.options };
        TokenLoader::tokens(self.tokens, order, &options, self.device)
    }

    fn gpt(&self) -> Result<GptOrder<IntArray>> {
        let [file] = self.tokens.files() else {
            let message = format!("{} files of tokens have no order of their own: give one", self.tokens.files().len());
            return Err(Error::config(message));
        };
        let options = GptOptions::new(self.seed, self.options.length, self.samples);
        let options = GptOptions { extra_token: self.options.extra_token, ..options };
        let lengths = file.lengths().to_i32s()?;
        // `GptIndex::build` refuses more sequences than 32 bits can number.
        let index = GptIndex::build(&lengths, 0..u32::try_from(lengths.len()).unwrap_or(u32::MAX), &options)?;
        GptOrder::of(index, file.lengths().clone(), &options)
    }
}

impl<D> std::fmt::Debug for TokenLoaderBuilder<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenLoaderBuilder").field("seed", &self.seed).field("rank", &self.rank).finish_non_exhaustive()
    }
}
