// Pixels on their way in, and out: scaled, rounded, and put where the layout says.
#pragma once
#include "common.cuh"

/// `4 × N` bytes as words, at any alignment.
template <int N>
INLINE void load_words(const u8* from, u32 (&word)[N]) {
    const u64 address = (u64)from;
    const u32* words = (const u32*)(address & ~3ull);
    const u32 shift = (u32)(address & 3) * 8;
    u32 low = __ldg(words);
#pragma unroll
    for (int i = 0; i < N; i++) {
        // The last word is read only if it holds needed bytes.
        const u32 high = i < N - 1 || shift ? __ldg(words + i + 1) : 0;
        word[i] = __funnelshift_r(low, high, shift);
        low = high;
    }
}

/// The byte `i` of these words.
template <int N>
INLINE float byte(const u32 (&word)[N], int i) {
    return (float)(word[i / 4] >> (i % 4 * 8) & 0xff);
}

/// Where pixels go, and as what. 96 bytes.
struct Output {
    void* data;
    /// For each channel: what comes out is (byte / 255 - mean) / std, each of the three rounded to 32 bits, as by the loader.
    float mean[4];
    float std[4];
    /// The same with fewer operations; factors are 0 where these would not give the same. Of `f32`: 1 / std. Of `f16` and `bf16`:
    /// byte * factor + offset, as `E::near` rounds it.
    float factor[4];
    float offset[4];
    u32 height;
    u32 width;
    u32 channels;
    u32 rows;
    /// Channels first.
    u32 planar;
    /// Whether four neighbours can be stored at once: the width is a multiple of four, `data` is aligned.
    u32 vector;
};
static_assert(sizeof(Output) == 96, "as in pixels.rs");

/// a / b as a division rounds it, where `inverse` is 1 / b and `steps` corrections make up for its rounding (P. Markstein, IBM Journal
/// of Research and Development 34, 1990): a few multiplications, while the device's division takes far more.
template <int steps>
INLINE float divided(float a, float b, float inverse) {
    float quotient = a * inverse;
#pragma unroll
    for (int i = 0; i < steps; i++) {
        quotient = fmaf(fmaf(-quotient, b, a), inverse, quotient);
    }
    return quotient;
}

/// A byte from 0 to 1: as by a division, for each of the 256.
INLINE float share(float byte) {
    return divided<1>(byte, 255.0f, 1.0f / 255.0f);
}

/// A value before it is rounded, where factors are known. Those that are no whole bytes, results of filters, are as near.
template <class E>
INLINE float scaled(const Output& o, float value, int c) {
    if (E::IS_BYTE) {
        return value;
    }
    if (E::IS_SHORT) {
        return fmaf(value, o.factor[c], o.offset[c]);
    }
    return divided<2>(share(value) - o.mean[c], o.std[c], o.factor[c]);
}

template <class E>
INLINE typename E::T normalized(const Output& o, float value, int c) {
    if (E::IS_BYTE || o.factor[0] != 0.0f) {
        return E::near(scaled<E>(o, value, c));
    }
    return E::of((share(value) - o.mean[c]) / o.std[c]);
}

/// Stores one pixel.
template <class E, int C>
INLINE void put_one(const Output& o, u32 row, u32 y, u32 x, const float (&value)[C], bool erased = false) {
    typedef typename E::T T;
    const u64 plane = (u64)o.height * o.width;
    T* image = (T*)o.data + row * plane * C;
    const u32 pixel = y * o.width + x;
#pragma unroll
    for (int c = 0; c < C; c++) {
        image[o.planar ? c * plane + pixel : (u64)pixel * C + c] = erased ? E::of(0.0f) : normalized<E>(o, value[c], c);
    }
}

/// Stores `count` (at most four) neighbours of a line, the first at (`y`, `x`). Those whose bit of `erased` is set are 0, whatever
/// the normalisation.
template <class E, int C>
INLINE void put(const Output& o, u32 row, u32 y, u32 x, u32 count, const float (&value)[4][C], u32 erased = 0) {
    typedef typename E::T T;
    if (!o.vector || !(E::IS_BYTE || o.factor[0] != 0.0f)) {
        // One after another, as this takes fewer registers.
#pragma unroll 1
        for (u32 i = 0; i < count; i++) {
            float one[C];
#pragma unroll
            for (int c = 0; c < C; c++) {
                one[c] = i == 0 ? value[0][c] : i == 1 ? value[1][c] : i == 2 ? value[2][c] : value[3][c];
            }
            put_one<E, C>(o, row, y, x + i, one, erased >> i & 1);
        }
        return;
    }
    float ready[4 * C];
#pragma unroll
    for (int i = 0; i < 4 * C; i++) {
        ready[i] = scaled<E>(o, value[i / C][i % C], i % C);
    }
    if (erased) {
#pragma unroll
        for (int i = 0; i < 4 * C; i++) {
            ready[i] = erased >> (i / C) & 1 ? 0.0f : ready[i];
        }
    }
    const u64 plane = (u64)o.height * o.width;
    T* image = (T*)o.data + row * plane * C;
    const u32 pixel = y * o.width + x;
    if (o.planar) {
        image += pixel;
#pragma unroll
        for (int c = 0; c < C; c++) {
            E::store(image + c * plane, ready[c], ready[C + c], ready[2 * C + c], ready[3 * C + c]);
        }
    } else {
        image += (u64)pixel * C;
#pragma unroll
        for (int k = 0; k < C; k++) {
            E::store(image + 4 * k, ready[4 * k], ready[4 * k + 1], ready[4 * k + 2], ready[4 * k + 3]);
        }
    }
}

/// A thread's groups of four neighbours in a picture, which may be fewer at the end of a line.
struct Groups {
    u32 width;
    /// The first of the four.
    u32 y;
    u32 x;
    /// To the next group of this thread.
    u32 down;
    u32 across;

    METHOD explicit Groups(u32 width) : Groups(width, (u32)first(), (u32)stride()) {}

    METHOD Groups(u32 width, u32 from, u32 by) : width(width) {
        const u32 groups = (width + 3) / 4;
        y = from / groups;
        x = (from - y * groups) * 4;
        down = by / groups;
        across = (by - down * groups) * 4;
    }

    METHOD u32 count() const {
        return width - x < 4 ? width - x : 4;
    }

    METHOD void next() {
        y += down;
        x += across;
        if (x >= width) {
            x -= (width + 3) & ~3u;
            y++;
        }
    }
};
