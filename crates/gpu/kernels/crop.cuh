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

// The pixels in these words, the last one first.

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

/// Fours of pixels of three bytes.
template <int N>
INLINE void mirror(u32 (&word)[N]) {
    u32 out[N];
#pragma unroll
    for (int four = 0; four < N; four += 3) {
        u32 part[3] = {word[four], word[four + 1], word[four + 2]};
        mirror(part);
#pragma unroll
        for (int i = 0; i < 3; i++) {
            out[N - 3 - four + i] = part[i];
        }
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        word[i] = out[i];
    }
}

struct Crop {
    const ImageParams& p;

    struct Row {
        /// The first pixel of the part, and the bytes from there to the end of all pictures.
        const u8* from;
        u64 room;
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
        const bool flip = p.flips ? p.flips[row] != 0 : p.flip_below && (at(key, 0) >> 11) < p.flip_below;
        return row_at(row * size + ((u64)top * p.width + left) * p.out.channels, flip);
    }

    /// A part that so many bytes are before.
    METHOD Row row_at(u64 skipped, bool flip) const {
        return Row{p.pixels + skipped, (u64)p.out.rows * p.height * p.width * p.out.channels - skipped, flip};
    }

    /// Eight neighbours of three bytes, where words around them are within the input.
    METHOD void eight(const Row& common, u32 y, u32 x, u32 (&word)[6]) const {
        load_words<6>(common.from + (y * p.width + (common.flip ? p.out.width - 8 - x : x)) * 3, word);
        if (common.flip) {
            mirror(word);
        }
    }

    template <int C>
    METHOD void pixels(const Row& common, const Groups& at, float (&value)[4][C]) const {
        // Pictures have at most 2^30 pixels of four bytes. Of fewer than four neighbours, pixels beside the line are read too: those
        // before the first line have places below 0.
        const i32 place = (i32)(at.y * p.width + (common.flip ? p.out.width - 4 - at.x : at.x));
        const u32 from = (u32)place * C;
        // Words around the pixels are read, unless they might reach past an end of all pictures.
        if (place >= 0 && common.room >= (u64)from + 4 * C + 3) {
            u32 word[C];
            load_words<C>(common.from + from, word);
            if (common.flip) {
                mirror(word);
            }
#pragma unroll
            for (int i = 0; i < 4 * C; i++) {
                value[i / C][i % C] = (float)(word[i / 4] >> (i % 4 * 8) & 0xff);
            }
            return;
        }
#pragma unroll 1
        for (u32 i = 0; i < 4; i++) {
            const u32 x = common.flip ? p.out.width - 1 - at.x - i : at.x + i;
            const u8* pixel = common.from + (at.y * p.width + x) * C;
#pragma unroll
            for (int c = 0; c < C; c++) {
                const float one = i < at.count() ? (float)pixel[c] : 0.0f;
                // Registers have no index.
#pragma unroll
                for (u32 k = 0; k < 4; k++) {
                    value[k][c] = k == i || i == 0 ? one : value[k][c];
                }
            }
        }
    }
};
