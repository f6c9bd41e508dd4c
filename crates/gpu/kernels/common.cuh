// What all kernels share: names of types, random numbers, elements.
//
// Plain C++14 without headers: NVRTC makes PTX of it, and the tests compile the same text for the host, where
// `host.h` stands in for what CUDA brings. A kernel takes one struct by value. Nothing here uses shared memory,
// atomics or the order in which threads run, so that host and device give the same bits (but for `reciprocal`).
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;

#ifdef PACKHORSE_HOST
#include "host.h"
#else
#define KERNEL(name, Params) extern "C" __global__ void __launch_bounds__(256) name(const Params p)
#define INLINE static __device__ __forceinline__
#define METHOD __device__ __forceinline__
#define CONSTANT static __constant__ const

INLINE u16 half_bits(float value) {
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

/// The largest whole number up to this, from 0 to 255.
INLINE u8 floored_byte(float value) {
    u32 byte;
    asm("cvt.rmi.sat.u8.f32 %0, %1;" : "=r"(byte) : "f"(value));
    return (u8)byte;
}

/// 1 / value, within a unit in the last place.
INLINE float reciprocal(float value) {
    float one;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(one) : "f"(value));
    return one;
}

INLINE u64 nanoseconds() {
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}
#endif

// Random numbers: output `n` of SplitMix64 from `key`, as crates/order and crates/transform have it.

const u64 STEP = 0x9e3779b97f4a7c15ull;

INLINE u64 mix(u64 x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

INLINE u64 at(u64 key, u64 n) {
    return mix(key + (n + 1) * STEP);
}

/// One of the whole numbers below `n`.
INLINE u64 below(u64 number, u64 n) {
    return __umul64hi(number, n);
}

/// One of 2^53 evenly spaced values from 0 up to and without 1.
INLINE double unit(u64 number) {
    return (double)(number >> 11) * (1.0 / 9007199254740992.0);
}

template <class T>
struct alignas(4 * sizeof(T)) Four {
    T value[4];
};

struct alignas(8) Pair {
    u32 value[2];
};

// Elements of what comes out. `of` rounds to nearest, ties to even; of u8 halves go up, and what is outside is clamped. `near` is as
// near for numbers, and may round ties up; `store` puts four of these at an aligned address.

struct U8 {
    typedef u8 T;
    enum { IS_BYTE = 1, IS_SHORT = 0 };
    static METHOD T of(float value) {
        return floored_byte(value + 0.5f);
    }
    static METHOD T near(float value) {
        return of(value);
    }
    static METHOD void store(T* to, float a, float b, float c, float d) {
        *(u32*)to = of(a) | (u32)of(b) << 8 | (u32)of(c) << 16 | (u32)of(d) << 24;
    }
};

struct F16 {
    typedef u16 T;
    enum { IS_BYTE = 0, IS_SHORT = 1 };
    static METHOD T of(float value) {
        return half_bits(value);
    }
    static METHOD T near(float value) {
        return half_bits(value);
    }
    /// Two of `near` beside each other.
    static METHOD u32 two(float a, float b) {
        return of(a) | (u32)of(b) << 16;
    }
    static METHOD void store(T* to, float a, float b, float c, float d) {
        *(Pair*)to = Pair{{two(a, b), two(c, d)}};
    }
};

struct BF16 {
    typedef u16 T;
    enum { IS_BYTE = 0, IS_SHORT = 1 };
    static METHOD T of(float value) {
        u32 bits = __float_as_uint(value);
        if ((bits & 0x7fffffffu) > 0x7f800000u) {
            return 0x7fff;
        }
        return (u16)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
    }
    /// In the upper half.
    static METHOD u32 rounded(float value) {
        return __float_as_uint(value) + 0x8000u;
    }
    static METHOD T near(float value) {
        return (u16)(rounded(value) >> 16);
    }
    /// Two of `near` beside each other.
    static METHOD u32 two(float a, float b) {
        return __byte_perm(rounded(a), rounded(b), 0x7632);
    }
    static METHOD void store(T* to, float a, float b, float c, float d) {
        *(Pair*)to = Pair{{two(a, b), two(c, d)}};
    }
};

struct F32 {
    typedef float T;
    enum { IS_BYTE = 0, IS_SHORT = 0 };
    static METHOD T of(float value) {
        return value;
    }
    static METHOD T near(float value) {
        return value;
    }
    static METHOD void store(T* to, float a, float b, float c, float d) {
        *(Four<float>*)to = Four<float>{{a, b, c, d}};
    }
};

/// The first of a thread's groups of work, and how far it is to the next.
INLINE u64 first() {
    return (u64)blockIdx.x * blockDim.x + threadIdx.x;
}

INLINE u64 stride() {
    return (u64)gridDim.x * blockDim.x;
}
