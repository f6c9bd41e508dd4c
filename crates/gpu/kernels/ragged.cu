// Unpacks bits to elements, ragged rows to padded ones, and copies pieces of memory.
#include "common.cuh"

struct BitsParams {
    const u8* bits;
    void* data;
    /// Bits per row, and the bytes that they take.
    u64 count;
    u64 bytes;
    /// The values for 0 and 1.
    float zero;
    float one;
    u32 rows;
    /// Whether four neighbours can be stored at once.
    u32 vector;
};
static_assert(sizeof(BitsParams) == 48, "as in bits.rs");

/// Four neighbours, half a byte, a thread.
template <class E>
INLINE void bits(const BitsParams& p) {
    typedef typename E::T T;
    const T zero = E::of(p.zero), one = E::of(p.one);
    const u64 groups = p.count / 4 + (p.count % 4 != 0);
    for (u32 row = blockIdx.y; row < p.rows; row += gridDim.y) {
#pragma unroll 1
        for (u64 group = first(); group < groups; group += stride()) {
            const u32 half = p.bits[row * p.bytes + group / 2] >> (group % 2 * 4);
            Four<T> four;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                four.value[i] = half >> i & 1 ? one : zero;
            }
            T* to = (T*)p.data + row * p.count + group * 4;
            if (p.vector) {
                *(Four<T>*)to = four;
            } else {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    if (group * 4 + i < p.count) {
                        to[i] = four.value[i];
                    }
                }
            }
        }
    }
}

KERNEL(bits_u8, BitsParams) {
    bits<U8>(p);
}

KERNEL(bits_f16, BitsParams) {
    bits<F16>(p);
}

KERNEL(bits_bf16, BitsParams) {
    bits<BF16>(p);
}

KERNEL(bits_f32, BitsParams) {
    bits<F32>(p);
}

struct PadParams {
    const void* values;
    /// The start of each row in `values`, in entries; the last entry is their end.
    const i64* offsets;
    void* data;
    /// The number of entries of each row, or null.
    void* lengths;
    /// Entries of `values`.
    u64 entries;
    /// Elements per entry.
    u64 inner;
    /// Entries per output row.
    u64 most;
    /// The bits of the padding value.
    u64 pad;
    u32 rows;
    /// Whether lengths have 64 bits.
    u32 wide;
    /// Whether four neighbours can be stored at once.
    u32 vector;
    u32 reserved;
};
static_assert(sizeof(PadParams) == 80, "as in pad.rs");

INLINE u64 bounded(i64 value, u64 low, u64 high) {
    return value < (i64)low ? low : (u64)value < high ? (u64)value : high;
}

/// Four neighbours a thread.
template <class T>
INLINE void pad(const PadParams& p) {
    const u64 all = p.most * p.inner;
    const u64 groups = all / 4 + (all % 4 != 0);
    for (u32 row = blockIdx.y; row < p.rows; row += gridDim.y) {
        const u64 begin = bounded(p.offsets[row], 0, p.entries);
        const u64 end = bounded(p.offsets[row + 1], begin, p.entries);
        const u64 length = end - begin < p.most ? end - begin : p.most;
        if (p.lengths && first() == 0) {
            if (p.wide) {
                ((i64*)p.lengths)[row] = (i64)length;
            } else {
                ((i32*)p.lengths)[row] = (i32)length;
            }
        }
        const T* from = (const T*)p.values + begin * p.inner;
        const u64 held = length * p.inner;
#pragma unroll 1
        for (u64 group = first(); group < groups; group += stride()) {
            Four<T> four;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                four.value[i] = group * 4 + i < held ? from[group * 4 + i] : (T)p.pad;
            }
            T* to = (T*)p.data + row * all + group * 4;
            if (p.vector) {
                *(Four<T>*)to = four;
            } else {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    if (group * 4 + i < all) {
                        to[i] = four.value[i];
                    }
                }
            }
        }
    }
}

KERNEL(pad_1, PadParams) {
    pad<u8>(p);
}

KERNEL(pad_2, PadParams) {
    pad<u16>(p);
}

KERNEL(pad_4, PadParams) {
    pad<u32>(p);
}

KERNEL(pad_8, PadParams) {
    pad<u64>(p);
}

struct GatherParams {
    /// Three numbers each: from, to, bytes; and behind them what the first of them copy.
    const u64* pieces;
    u8* data;
    u32 count;
    /// Pieces whose `from` is an offset from `pieces`; that of the others is an address.
    u32 here;
};
static_assert(sizeof(GatherParams) == 24, "as in gather.rs");

/// Eight of the bytes at an address, from the two aligned words that have them.
INLINE u64 unaligned(u64 low, u64 high, u32 skew) {
    return skew ? low >> (8 * skew) | high << (64 - 8 * skew) : low;
}

/// Sixteen neighbours of the output a thread, at a multiple of sixteen.
KERNEL(gather, GatherParams) {
    for (u32 number = blockIdx.y; number < p.count; number += gridDim.y) {
        const u64* piece = p.pieces + 3 * (u64)number;
        const u64 from = piece[0] + (number < p.here ? (u64)p.pieces : 0), bytes = piece[2];
        const u64 to = (u64)p.data + piece[1], end = to + bytes;
        const u64 begin = to & ~15ull, groups = (end - begin) / 16 + ((end - begin) % 16 != 0);
#pragma unroll 1
        for (u64 group = first(); group < groups; group += stride()) {
            const u64 at = begin + 16 * group;
            if (at >= to && at + 16 <= end) {
                const u64 source = from + (at - to);
                const u32 skew = (u32)source & 7;
                const u64* words = (const u64*)(source - skew);
                // The third word may have no byte of the piece.
                const u64 a = words[0], b = words[1], c = skew ? words[2] : 0;
                *(u64*)at = unaligned(a, b, skew);
                *(u64*)(at + 8) = unaligned(b, c, skew);
            } else {
                for (u64 k = at < to ? to : at; k < at + 16 && k < end; k++) {
                    *(u8*)k = *(const u8*)(from + (k - to));
                }
            }
        }
    }
}
