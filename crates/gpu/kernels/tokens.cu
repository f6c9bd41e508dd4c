// Rows of tokens to inputs, labels, positions within documents, and where documents begin.
//
// Where documents begin is told by a token (the one after an end of document), by numbers of segments that change, or
// by cumulative lengths. The first two need to know, for each token, the last beginning before it: rows are cut into
// chunks, `tokens_chunks_*` finds the last beginning and the number of them in each, `tokens_rows` sums them up along
// each row, `tokens_bases` from row to row, and `tokens_*` looks back within its chunk only.
#include "common.cuh"

struct TokensParams {
    const void* tokens;
    /// For each input whether its label counts; or null.
    const u8* mask;
    /// For each input the number of its document in the row; or null.
    const i32* segments;
    /// The start of each document in all rows together, and the end; or null.
    const i32* cumulative;
    /// The outputs; null for those that are not wanted.
    void* inputs;
    void* labels;
    void* positions;
    i32* starts;
    /// The number of entries in `starts`.
    i32* entries;
    /// Of each chunk: the last beginning before it, the number of beginnings in the row before it.
    i32* last;
    i32* before;
    /// Of each row: the number of beginnings, and that of all rows before it.
    i32* counts;
    i32* bases;
    /// The token that ends a document.
    i64 end;
    /// The value of masked labels.
    i64 ignore;
    u32 rows;
    u32 length;
    /// Tokens per row: `length`, or one more.
    u32 width;
    u32 chunk;
    u32 chunks;
    /// Entries of `cumulative`.
    u32 boundaries;
    /// 0: a row is one document; 1: `end` ends one; 2: `segments`; 3: `cumulative`.
    u32 mode;
    u32 reserved;
};
static_assert(sizeof(TokensParams) == 152, "as in tokens.rs");

template <class In>
INLINE bool begins(const TokensParams& p, u32 row, u32 i) {
    if (i == 0) {
        return true;
    }
    if (p.mode == 1) {
        return (i64)((const In*)p.tokens)[(u64)row * p.width + i - 1] == p.end;
    }
    if (p.mode != 2) {
        return false;
    }
    const i32* segments = p.segments + (u64)row * p.length;
    return segments[i] != segments[i - 1];
}

template <class In>
INLINE void chunks(const TokensParams& p) {
    for (u32 row = blockIdx.y; row < p.rows; row += gridDim.y) {
#pragma unroll 1
        for (u64 k = first(); k < p.chunks; k += stride()) {
            const u32 from = (u32)k * p.chunk;
            const u32 to = p.length - from < p.chunk ? p.length : from + p.chunk;
            i32 last = -1, count = 0;
            for (u32 i = from; i < to; i++) {
                if (begins<In>(p, row, i)) {
                    last = (i32)i;
                    count++;
                }
            }
            p.last[(u64)row * p.chunks + k] = last;
            p.before[(u64)row * p.chunks + k] = count;
        }
    }
}

KERNEL(tokens_chunks_u16, TokensParams) {
    chunks<u16>(p);
}

KERNEL(tokens_chunks_i32, TokensParams) {
    chunks<i32>(p);
}

KERNEL(tokens_chunks_i64, TokensParams) {
    chunks<i64>(p);
}

/// Along a row: a thread each.
KERNEL(tokens_rows, TokensParams) {
#pragma unroll 1
    for (u64 row = first(); row < p.rows; row += stride()) {
        i32 last = 0, count = 0;
        for (u64 k = row * p.chunks; k < (row + 1) * p.chunks; k++) {
            const i32 found = p.last[k], more = p.before[k];
            p.last[k] = last;
            p.before[k] = count;
            last = found < 0 ? last : found;
            count += more;
        }
        p.counts[row] = count;
    }
}

/// From row to row: a thread each, which all read the same numbers at the same time.
KERNEL(tokens_bases, TokensParams) {
#pragma unroll 1
    for (u64 row = first(); row < p.rows; row += stride()) {
        i32 base = 0;
        for (u64 k = 0; k < row; k++) {
            base += p.counts[k];
        }
        p.bases[row] = base;
        if (row == p.rows - 1) {
            const i32 all = base + p.counts[row];
            p.starts[all] = (i32)(p.rows * p.length);
            if (p.entries) {
                *p.entries = all + 1;
            }
        }
    }
}

/// The last of `boundaries` that is not past `place`.
INLINE i32 beginning(const TokensParams& p, i32 place) {
    u32 low = 0, high = p.boundaries;
    while (high - low > 1) {
        const u32 middle = low + (high - low) / 2;
        if (p.cumulative[middle] <= place) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return p.cumulative[low];
}

/// Where the document of input `i` begins in the row. Of cumulative lengths none reaches over a row's edge.
template <class In>
INLINE i32 document(const TokensParams& p, u32 row, u32 i) {
    if (p.mode == 0) {
        return 0;
    }
    if (p.mode == 3) {
        const i32 base = (i32)(row * p.length);
        const i32 from = beginning(p, base + (i32)i) - base;
        return from < 0 ? 0 : from;
    }
    const u32 chunk = i / p.chunk;
#pragma unroll 1
    for (u32 k = i + 1; k-- > chunk * p.chunk;) {
        if (begins<In>(p, row, k)) {
            return (i32)k;
        }
    }
    return p.last[(u64)row * p.chunks + chunk];
}

/// The beginnings in the chunk of `i` before `i`.
template <class In>
INLINE i32 earlier(const TokensParams& p, u32 row, u32 i) {
    i32 count = 0;
#pragma unroll 1
    for (u32 k = i / p.chunk * p.chunk; k < i; k++) {
        count += begins<In>(p, row, k);
    }
    return count;
}

/// One input a thread.
template <class In, class Out>
INLINE void spread(const TokensParams& p) {
    for (u32 row = blockIdx.y; row < p.rows; row += gridDim.y) {
        const In* tokens = (const In*)p.tokens + (u64)row * p.width;
        const u64 begin = (u64)row * p.length;
#pragma unroll 1
        for (u64 place = first(); place < p.length; place += stride()) {
            const u32 i = (u32)place;
            const u64 k = begin + i;
            if (p.inputs) {
                ((Out*)p.inputs)[k] = (Out)tokens[i];
            }
            if (p.labels) {
                const bool counts = i + 1 < p.width && (!p.mask || p.mask[k]);
                ((Out*)p.labels)[k] = counts ? (Out)tokens[i + 1] : (Out)p.ignore;
            }
            if (p.positions) {
                ((Out*)p.positions)[k] = (Out)((i32)i - document<In>(p, row, i));
            }
            if (p.starts && begins<In>(p, row, i)) {
                const i32 before = p.before[(u64)row * p.chunks + i / p.chunk] + earlier<In>(p, row, i);
                p.starts[p.bases[row] + before] = (i32)k;
            }
        }
    }
}

KERNEL(tokens_u16_i32, TokensParams) {
    spread<u16, i32>(p);
}

KERNEL(tokens_u16_i64, TokensParams) {
    spread<u16, i64>(p);
}

KERNEL(tokens_i32_i32, TokensParams) {
    spread<i32, i32>(p);
}

KERNEL(tokens_i32_i64, TokensParams) {
    spread<i32, i64>(p);
}

KERNEL(tokens_i64_i64, TokensParams) {
    spread<i64, i64>(p);
}
