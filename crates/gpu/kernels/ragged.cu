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

/// Eight of the bytes at an address, from the two aligned words that have them.
INLINE u64 unaligned(u64 low, u64 high, u32 skew) {
    return skew ? low >> (8 * skew) | high << (64 - 8 * skew) : low;
}

/// Copies sixteen bytes to a multiple of eight. Reads the aligned words that have them.
INLINE void copy_sixteen(u64 to, u64 from) {
    const u32 skew = (u32)from & 7;
    const u64* words = (const u64*)(from - skew);
    // The third word may have none of them.
    const u64 a = words[0], b = words[1], c = skew ? words[2] : 0;
    *(u64*)to = unaligned(a, b, skew);
    *(u64*)(to + 8) = unaligned(b, c, skew);
}

struct PadParams {
    const u8* values;
    /// The start of each row in `values`, in entries; the last entry is their end.
    const i64* offsets;
    u8* data;
    /// The number of entries of each row, or null.
    void* lengths;
    /// Entries of `values`.
    u64 entries;
    /// Bytes per entry.
    u64 size;
    /// Entries per output row.
    u64 most;
    /// The bits of the padding value, in each of its places in eight bytes.
    u64 pad;
    u32 rows;
    /// Whether lengths have 64 bits.
    u32 wide;
};
static_assert(sizeof(PadParams) == 72, "as in pad.rs");

INLINE u64 bounded(i64 value, u64 low, u64 high) {
    return value < (i64)low ? low : (u64)value < high ? (u64)value : high;
}

/// Sixteen bytes of the output a thread, at a multiple of sixteen: which type they have does not matter.
KERNEL(pad, PadParams) {
    const u64 all = p.most * p.size;
    for (u32 row = blockIdx.y; row < p.rows; row += gridDim.y) {
        const u64 start = bounded(p.offsets[row], 0, p.entries);
        const u64 stop = bounded(p.offsets[row + 1], start, p.entries);
        const u64 length = stop - start < p.most ? stop - start : p.most;
        if (p.lengths && first() == 0) {
            if (p.wide) {
                ((i64*)p.lengths)[row] = (i64)length;
            } else {
                ((i32*)p.lengths)[row] = (i32)length;
            }
        }
        const u64 from = (u64)p.values + start * p.size;
        const u64 to = (u64)p.data + row * all, held = to + length * p.size, end = to + all;
        const u64 begin = to & ~15ull, groups = (end - begin) / 16 + ((end - begin) % 16 != 0);
#pragma unroll 1
        for (u64 group = first(); group < groups; group += stride()) {
            const u64 at = begin + 16 * group;
            if (at >= to && at + 16 <= held) {
                copy_sixteen(at, from + (at - to));
            } else if (at >= held && at + 16 <= end) {
                *(u64*)at = p.pad;
                *(u64*)(at + 8) = p.pad;
            } else {
#pragma unroll 1
                for (u64 k = at < to ? to : at; k < at + 16 && k < end; k++) {
                    *(u8*)k = k < held ? *(const u8*)(from + (k - to)) : (u8)(p.pad >> (k % 8 * 8));
                }
            }
        }
    }
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
                copy_sixteen(at, from + (at - to));
            } else {
                for (u64 k = at < to ? to : at; k < at + 16 && k < end; k++) {
                    *(u8*)k = *(const u8*)(from + (k - to));
                }
            }
        }
    }
}
