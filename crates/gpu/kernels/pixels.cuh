// Pixels on their way in, and out: scaled, rounded, and put where the layout says.
#pragma once
#include "common.cuh"

/// `4 × C` bytes as words, at any alignment.
template <int C>
INLINE void load_words(const u8* from, u32 (&word)[C]) {
    const u64 address = (u64)from;
    const u32* words = (const u32*)(address & ~3ull);
    const u32 shift = (u32)(address & 3) * 8;
    u32 low = words[0];
#pragma unroll
    for (int i = 0; i < C; i++) {
        // The last word is read only if it holds needed bytes.
        const u32 high = i < C - 1 || shift ? words[i + 1] : 0;
        word[i] = __funnelshift_r(low, high, shift);
        low = high;
    }
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

/// Of bytes; other values, which are the results of filters, are as near.
template <class E, bool fast>
INLINE typename E::T normalized(const Output& o, float value, int c) {
    if (E::IS_BYTE) {
        return E::of(value);
    }
    if (fast && E::IS_SHORT) {
        return E::near(fmaf(value, o.factor[c], o.offset[c]));
    }
    const float centred = share(value) - o.mean[c];
    return E::of(fast ? divided<2>(centred, o.std[c], o.factor[c]) : centred / o.std[c]);
}

/// Stores `count` (at most four) neighbours of a line, the first at (`y`, `x`). Those whose bit of `erased` is set are 0, whatever
/// the normalisation.
template <class E, int C>
INLINE void put(const Output& o, u32 row, u32 y, u32 x, u32 count, const float (&value)[4][C], u32 erased = 0) {
    typedef typename E::T T;
    const u64 plane = (u64)o.height * o.width;
    T* image = (T*)o.data + row * plane * C;
    const u64 pixel = (u64)y * o.width + x;
    T ready[4 * C];
    if (E::IS_BYTE || o.factor[0] != 0.0f) {
#pragma unroll
        for (int i = 0; i < 4 * C; i++) {
            ready[i] = normalized<E, true>(o, value[i / C][i % C], i % C);
        }
    } else {
#pragma unroll
        for (int i = 0; i < 4 * C; i++) {
            ready[i] = normalized<E, false>(o, value[i / C][i % C], i % C);
        }
    }
    if (erased) {
#pragma unroll
        for (int i = 0; i < 4 * C; i++) {
            ready[i] = erased >> (i / C) & 1 ? E::of(0.0f) : ready[i];
        }
    }
    const u32 held = o.planar ? count : count * C;
#pragma unroll
    for (int k = 0; k < C; k++) {
        // Of planar pixels a channel, of others a quarter of the four.
        Four<T> four;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            four.value[i] = o.planar ? ready[i * C + k] : ready[k * 4 + i];
        }
        T* to = image + (o.planar ? k * plane + pixel : pixel * C + k * 4);
        if (o.vector) {
            *(Four<T>*)to = four;
        } else {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                if ((u32)(o.planar ? i : k * 4 + i) < held) {
                    to[i] = four.value[i];
                }
            }
        }
    }
}

/// Stores one pixel.
template <class E, int C>
INLINE void put_one(const Output& o, u32 row, u32 y, u32 x, const float (&value)[C]) {
    typedef typename E::T T;
    const u64 plane = (u64)o.height * o.width;
    T* image = (T*)o.data + row * plane * C;
    const u64 pixel = (u64)y * o.width + x;
#pragma unroll
    for (int c = 0; c < C; c++) {
        const T ready = o.factor[0] != 0.0f ? normalized<E, true>(o, value[c], c) : normalized<E, false>(o, value[c], c);
        image[o.planar ? c * plane + pixel : pixel * C + c] = ready;
    }
}

/// A thread's groups of four neighbours in a picture, which may be fewer at the end of a line.
struct Groups {
    u32 width;
    /// The first of the four, and how many they are.
    u32 y;
    u32 x;
    u32 count;
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
        count = width - x < 4 ? width - x : 4;
    }

    METHOD void next() {
        y += down;
        x += across;
        if (x >= width) {
            x -= (width + 3) & ~3u;
            y++;
        }
        count = width - x < 4 ? width - x : 4;
    }
};

/// All pictures, four neighbours a thread at a time. `source.row(row)` says what a picture's pixels have in common, and
/// `source.pixels(…)` what these are.
template <class E, int C, class Source>
INLINE void paint_channels(const Output& o, const Source& source) {
    for (u32 row = blockIdx.y; row < o.rows; row += gridDim.y) {
        const typename Source::Row common = source.row(row);
#pragma unroll 1
        for (Groups at(o.width); at.y < o.height; at.next()) {
            float value[4][C];
            source.template pixels<C>(common, at.y, at.x, at.count, value);
            put<E, C>(o, row, at.y, at.x, at.count, value);
        }
    }
}

template <class E, class Source>
INLINE void paint(const Output& o, const Source& source) {
    switch (o.channels) {
        case 1:
            return paint_channels<E, 1>(o, source);
        case 3:
            return paint_channels<E, 3>(o, source);
        default:
            return paint_channels<E, 4>(o, source);
    }
}
