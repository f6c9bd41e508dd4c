// Kernels for tests and benchmarks: checksums of memory, busy waiting, and exercise.
#include "common.cuh"

struct ChecksumParams {
    const u8* data;
    /// `parts` sums per row.
    u64* sums;
    /// Bytes per row.
    u64 bytes;
    u32 rows;
    u32 parts;
    /// Whether rows begin at multiples of eight bytes.
    u32 aligned;
    u32 reserved;
};
static_assert(sizeof(ChecksumParams) == 40, "as in checksum.rs");

/// Bytes `8i` to `8i + 7`, zeros past the end.
INLINE u64 word(const ChecksumParams& p, const u8* row, u64 i) {
    if (p.aligned && i * 8 + 8 <= p.bytes) {
        return ((const u64*)row)[i];
    }
    u64 word = 0;
    for (u32 k = 0; k < 8 && i * 8 + k < p.bytes; k++) {
        word |= (u64)row[i * 8 + k] << (8 * k);
    }
    return word;
}

/// The sum of at(word, its number) over all words of a row, in parts, plus at(bytes, 2^64 - 1).
KERNEL(checksum, ChecksumParams) {
    const u64 words = p.bytes / 8 + (p.bytes % 8 != 0);
    for (u32 row = blockIdx.y; row < p.rows; row += gridDim.y) {
        for (u64 part = first(); part < p.parts; part += stride()) {
            const u8* from = p.data + row * p.bytes;
            u64 sum = part == 0 ? at(p.bytes, ~0ull) : 0;
            for (u64 i = part; i < words; i += p.parts) {
                sum += at(word(p, from, i), i);
            }
            p.sums[(u64)row * p.parts + part] = sum;
        }
    }
}

struct FoldParams {
    const u64* from;
    u64* to;
    /// How many numbers, a whole multiple of `group`, become one each.
    u64 count;
    u64 group;
};
static_assert(sizeof(FoldParams) == 32, "as in checksum.rs");

/// Adds up groups of neighbours.
KERNEL(fold, FoldParams) {
#pragma unroll 1
    for (u64 k = first(); k < p.count / p.group; k += stride()) {
        u64 sum = 0;
        for (u64 i = k * p.group; i < (k + 1) * p.group; i++) {
            sum += p.from[i];
        }
        p.to[k] = sum;
    }
}

struct SpinParams {
    u64 nanoseconds;
};

/// Waits busily.
KERNEL(spin, SpinParams) {
    const u64 begin = nanoseconds();
    while (nanoseconds() - begin < p.nanoseconds) {
    }
}

struct alignas(16) Quad {
    float x, y, z, w;
};

struct ExerciseParams {
    const Quad* data;
    float* sums;
    /// Values to read, for all sums together.
    u64 reads;
    /// Values in `data`, a power of two, minus 1.
    u64 last;
    /// Multiplications and additions for each number that is read.
    u32 sweeps;
    u32 count;
};
static_assert(sizeof(ExerciseParams) == 40, "as in exercise.rs");

/// Reads memory in order and computes, a fixed amount of both.
KERNEL(exercise, ExerciseParams) {
#pragma unroll 1
    for (u64 sum = first(); sum < p.count; sum += stride()) {
        float a = 0, b = 0, c = 0, d = 0;
#pragma unroll 1
        for (u64 i = sum; i < p.reads; i += p.count) {
            const Quad from = p.data[i & p.last];
#pragma unroll 8
            for (u32 k = 0; k < p.sweeps; k++) {
                a = fmaf(a, 0.5f, from.x);
                b = fmaf(b, 0.5f, from.y);
                c = fmaf(c, 0.5f, from.z);
                d = fmaf(d, 0.5f, from.w);
            }
        }
        p.sums[sum] = a + b + c + d;
    }
}
