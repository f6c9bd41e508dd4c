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
static_assert(sizeof(ImageParams) == 160, "as in image.rs");

INLINE u32 within(i32 value, u32 most) {
    return value < 0 ? 0 : (u32)value < most ? (u32)value : most;
}

// The four pixels in these words, the last one first.

INLINE void mirror(u32 (&word)[1]) {
    word[0] = __byte_perm(word[0], 0, 0x0123);
}

INLINE void mirror(u32 (&word)[3]) {
    const u32 first = word[0], middle = word[1], last = word[2];
    word[0] = __byte_perm(last, middle, 0x6321);
    word[1] = __byte_perm(__byte_perm(middle, last, 0x0043), first, 0x3710);
    word[2] = __byte_perm(middle, first, 0x6541);
}

INLINE void mirror(u32 (&word)[4]) {
    const u32 first = word[0], second = word[1];
    word[0] = word[3];
    word[1] = word[2];
    word[2] = second;
    word[3] = first;
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
        common.flip = p.flips ? p.flips[row] != 0 : p.flip_below && (at(key, 0) >> 11) < p.flip_below;
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
            if (common.flip) {
                mirror(word);
            }
#pragma unroll
            for (int i = 0; i < 4 * C; i++) {
                value[i / C][i % C] = (float)(word[i / 4] >> (i % 4 * 8) & 0xff);
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
