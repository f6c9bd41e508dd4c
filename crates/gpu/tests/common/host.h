// What CUDA brings, for the host: a kernel becomes a function that goes through its grid, thread by thread.
#pragma once
#include <cmath>
#include <ctime>
#include <cstring>

struct Three {
    unsigned x, y, z;
};
static thread_local Three gridDim, blockDim, blockIdx, threadIdx;

#define INLINE static inline
#define METHOD inline
#define CONSTANT static const
#define __restrict__

template <class Params, class Body>
static void run_grid(const void* bytes, const unsigned* grid, const unsigned* block, Body body) {
    // A copy, whose alignment is the struct's.
    Params p;
    memcpy(&p, bytes, sizeof p);
    gridDim = {grid[0], grid[1], grid[2]};
    blockDim = {block[0], block[1], block[2]};
    for (unsigned y = 0; y < grid[1]; y++) {
        for (unsigned x = 0; x < grid[0]; x++) {
            for (unsigned t = 0; t < block[0]; t++) {
                blockIdx = {x, y, 0};
                threadIdx = {t, 0, 0};
                body(p);
            }
        }
    }
}

// The size comes first, so that whoever calls sees that its bytes are no other struct.
#define KERNEL(name, Params)                                                                                       \
    static void body_##name(const Params& p);                                                                      \
    extern "C" size_t name(const void* bytes, size_t size, const unsigned* grid, const unsigned* block) {          \
        if (size == sizeof(Params)) {                                                                              \
            run_grid<Params>(bytes, grid, block, body_##name);                                                     \
        }                                                                                                          \
        return sizeof(Params);                                                                                     \
    }                                                                                                              \
    static void body_##name(const Params& p)

INLINE unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}

INLINE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((unsigned long long)high << 32 | low) >> (shift & 31));
}

INLINE unsigned __float_as_uint(float value) {
    unsigned bits;
    memcpy(&bits, &value, 4);
    return bits;
}

INLINE unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
    const unsigned long long all = (unsigned long long)high << 32 | low;
    unsigned bytes = 0;
    for (int i = 0; i < 4; i++) {
        bytes |= (unsigned)(all >> (selector >> (4 * i) & 7) * 8 & 0xff) << (8 * i);
    }
    return bytes;
}

INLINE unsigned __ldg(const unsigned* from) {
    return *from;
}

INLINE float __saturatef(float value) {
    return fminf(fmaxf(value, 0.0f), 1.0f);
}

INLINE unsigned char floored_byte(float value) {
    return (unsigned char)fminf(fmaxf(floorf(value), 0.0f), 255.0f);
}

INLINE float reciprocal(float value) {
    return 1.0f / value;
}

INLINE double cospi(double halves) {
    return cos(M_PI * halves);
}

INLINE double sinpi(double halves) {
    return sin(M_PI * halves);
}

/// As `cvt.rn.f16.f32`: to nearest, ties to even.
INLINE unsigned short half_bits(float value) {
    const unsigned bits = __float_as_uint(value);
    const unsigned sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) {
        return 0x7fff;
    }
    const int exponent = (int)(magnitude >> 23) - 127;
    if (exponent > 15) {
        return (unsigned short)(sign | 0x7c00);
    }
    // In units of the last bit of the half: 2^-24 below its normal numbers.
    const int shift = exponent < -14 ? 13 - 14 - exponent : 13;
    if (shift > 24) {
        return (unsigned short)sign;
    }
    const unsigned long long mantissa = (magnitude & 0x7fffff) | 0x800000;
    const unsigned long long kept = mantissa >> shift, rest = mantissa & ((1ull << shift) - 1), tie = 1ull << (shift - 1);
    const unsigned long long rounded = kept + (rest > tie || (rest == tie && (kept & 1)));
    // The leading bit of a normal number adds one to the exponent, and so does a carry.
    const unsigned base = exponent < -14 ? 0 : (unsigned)(exponent + 14) << 10;
    return (unsigned short)(sign | (base + (unsigned)rounded));
}

INLINE unsigned long long nanoseconds() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}
