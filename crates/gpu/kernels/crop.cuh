// Parts of pictures of one size (bytes, HWC), mirrored or not.
#pragma once
#include "pixels.cuh"

struct ImageParams {
    Output out;
    const u8* pixels;
    /// The random key of each picture; null if nothing is random.
    const u64* keys;
    /// Top and left of each picture's crop; null if it is random, or the same for all.
    const i32* corners;
    /// Whether each picture is mirrored; null if that is random, or never.
    const u8* flips;
    /// A picture is mirrored if its draw of 53 bits is below this.
    u64 flip_below;
    u32 height;
    u32 width;
    /// The crop of all pictures, if it is neither given nor random.
    u32 top;
    u32 left;
    u32 drawn;
    u32 reserved;
};
static_assert(sizeof(ImageParams) == 144, "as in image.rs");

INLINE u32 within(i32 value, u32 most) {
    return value < 0 ? 0 : (u32)value < most ? (u32)value : most;
}

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

struct Crop {
    const ImageParams& p;

    struct Row {
        /// The first pixel of the part, and the end of all memory.
        const u8* from;
        const u8* end;
        bool flip;
    };

    METHOD Row row(u32 row) const {
        u32 top = p.top, left = p.left;
        const u32 most_top = p.height - p.out.height, most_left = p.width - p.out.width;
        const u64 key = p.keys ? p.keys[row] : 0;
        if (p.corners) {
            top = within(p.corners[2 * (u64)row], most_top);
            left = within(p.corners[2 * (u64)row + 1], most_left);
        } else if (p.drawn) {
            top = (u32)below(at(key, 3), (u64)most_top + 1);
            left = (u32)below(at(key, 4), (u64)most_left + 1);
        }
        const u64 size = (u64)p.height * p.width * p.out.channels;
        Row common;
        common.from = p.pixels + row * size + ((u64)top * p.width + left) * p.out.channels;
        common.end = p.pixels + p.out.rows * size;
        common.flip = p.flips ? p.flips[row] != 0 : (at(key, 0) >> 11) < p.flip_below;
        return common;
    }

    template <int C>
    METHOD void pixels(const Row& common, u32 y, u32 x, u32 count, float (&value)[4][C]) const {
        const u8* line = common.from + (u64)y * p.width * C;
        const u32 last = p.out.width - 1 - x;
        // For four pixels the words around them are read, unless those might reach past the end.
        const u32 leftmost = count < 4 ? 0 : common.flip ? last - 3 : x;
        if (count == 4 && (u64)(common.end - line) >= (u64)leftmost * C + 4 * C + 3) {
            u32 word[C];
            load_words<C>(line + (u64)leftmost * C, word);
#pragma unroll
            for (int i = 0; i < 4; i++) {
#pragma unroll
                for (int c = 0; c < C; c++) {
                    const int a = i * C + c, b = (3 - i) * C + c;
                    const u32 ahead = word[a / 4] >> (a % 4 * 8), back = word[b / 4] >> (b % 4 * 8);
                    value[i][c] = (float)((common.flip ? back : ahead) & 0xff);
                }
            }
            return;
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
#pragma unroll
            for (int c = 0; c < C; c++) {
                const u32 at = common.flip ? last - i : x + i;
                value[i][c] = (u32)i < count ? (float)line[(u64)at * C + c] : 0.0f;
            }
        }
    }
};
