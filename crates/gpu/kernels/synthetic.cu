// Synthetic batches: noise, pictures of letters, tokens. Each sample is a function of its key, at(key, number), so any
// of them can be made again, alone and in any order.
#include "pixels.cuh"

struct PictureParams {
    Output out;
    u64 key;
    /// The number of the first sample.
    u64 first;
    /// Pixels per dot of letters; 0 for noise.
    u32 dot;
    u32 reserved;
};
static_assert(sizeof(PictureParams) == 120, "as in synthetic.rs");

/// 0 to 9 and A to Z, five dots wide, seven high: bit 5·y + x.
CONSTANT u64 FONT[36] = {
    0x3a33ae62eull, 0x3884210c4ull, 0x7c226422eull, 0x3a306422eull, 0x211f4a988ull, 0x3a3083c3full,
    0x3a317844cull, 0x08422221full, 0x3a317462eull, 0x1910f462eull, 0x4631fc62eull, 0x3e317c62full,
    0x3a210862eull, 0x3e318c62full, 0x7c217843full, 0x04217843full, 0x7a31e862eull, 0x4631fc631ull,
    0x38842108eull, 0x19284211cull, 0x452519531ull, 0x7c2108421ull, 0x4631ad771ull, 0x4739ace71ull,
    0x3a318c62eull, 0x04217c62full, 0x59358c62eull, 0x45257c62full, 0x3e107043eull, 0x10842109full,
    0x3a318c631ull, 0x11518c631ull, 0x2ab5ac631ull, 0x462a22a31ull, 0x108422a31ull, 0x7c222221full,
};

/// Values that all pixels of a picture share.
struct Common {
    u64 key;
    u64 background;
    u32 shift_x;
    u32 shift_y;
};

INLINE Common common_of(const PictureParams& p, u32 row) {
    Common common;
    common.key = at(p.key, p.first + row);
    common.background = at(common.key, 0);
    common.shift_x = (u32)below(at(common.key, 1), 8 * p.dot);
    common.shift_y = (u32)below(at(common.key, 2), 10 * p.dot);
    return common;
}

/// The pixel at (y, x): byte c is that of channel c.
INLINE u32 noise(const PictureParams& p, const Common& common, u32 y, u32 x) {
    return (u32)at(common.key, (u64)y * p.out.width + x);
}

/// Letters in cells of 8 × 10 dots, at random positions and in random colours; a quarter of the cells is empty.
INLINE u32 letters(const PictureParams& p, const Common& common, u32 y, u32 x) {
    const u32 dot = p.dot, wide = 8 * dot, high = 10 * dot, cells = p.out.width / wide + 2;
    const u32 u = x + common.shift_x, v = y + common.shift_y;
    const u64 number = at(common.key, 3 + (u64)(v / high) * cells + u / wide);
    const u32 glyph = (u32)(number & 255) * 48 >> 8;
    const u32 gx = u % wide - ((u32)(number >> 8 & 255) * (3 * dot + 1) >> 8);
    const u32 gy = v % high - ((u32)(number >> 16 & 255) * (3 * dot + 1) >> 8);
    // What lies before the letter has wrapped around, and is large.
    const bool inside = glyph < 36 && gx < 5 * dot && gy < 7 * dot;
    if (!inside || !(FONT[glyph] >> (gy / dot * 5 + gx / dot) & 1)) {
        return (u32)common.background;
    }
    u32 colour = 0;
#pragma unroll
    for (int c = 0; c < 4; c++) {
        const u32 ink = ((u32)(common.background >> (8 * c)) & 255) + 96 + ((u32)(number >> (24 + 8 * c)) & 63);
        colour |= (ink & 255) << (8 * c);
    }
    return colour;
}

template <class E, int C>
INLINE void put_words(const Output& o, u32 row, u32 y, u32 x, u32 count, const u32 (&word)[4]) {
    float value[4][C];
#pragma unroll
    for (int i = 0; i < 4 * C; i++) {
        value[i / C][i % C] = (float)(word[i / C] >> (8 * (i % C)) & 255);
    }
    put<E, C>(o, row, y, x, count, value);
}

template <class E>
INLINE void pictures(const PictureParams& p) {
    const Output& o = p.out;
    for (u32 row = blockIdx.y; row < o.rows; row += gridDim.y) {
        const Common common = common_of(p, row);
#pragma unroll 1
        for (Groups at(o.width); at.y < o.height; at.next()) {
            u32 word[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                word[i] = p.dot ? letters(p, common, at.y, at.x + i) : noise(p, common, at.y, at.x + i);
            }
            switch (o.channels) {
                case 1:
                    put_words<E, 1>(o, row, at.y, at.x, at.count(), word);
                    break;
                case 3:
                    put_words<E, 3>(o, row, at.y, at.x, at.count(), word);
                    break;
                default:
                    put_words<E, 4>(o, row, at.y, at.x, at.count(), word);
            }
        }
    }
}

KERNEL(pictures_u8, PictureParams) {
    pictures<U8>(p);
}

KERNEL(pictures_f16, PictureParams) {
    pictures<F16>(p);
}

KERNEL(pictures_bf16, PictureParams) {
    pictures<BF16>(p);
}

KERNEL(pictures_f32, PictureParams) {
    pictures<F32>(p);
}

struct DrawnTokensParams {
    void* data;
    u64 key;
    u64 first;
    /// Tokens are below this.
    u64 vocabulary;
    /// One of this many tokens is `end`; 0 for none.
    u64 every;
    i64 end;
    u32 rows;
    u32 width;
};
static_assert(sizeof(DrawnTokensParams) == 56, "as in synthetic.rs");

template <class T>
INLINE void drawn_tokens(const DrawnTokensParams& p) {
    for (u32 row = blockIdx.y; row < p.rows; row += gridDim.y) {
        const u64 key = at(p.key, p.first + row);
#pragma unroll 1
        for (u64 i = first(); i < p.width; i += stride()) {
            const u64 number = at(key, i);
            const bool ends = p.every && below(mix(number), p.every) == 0;
            ((T*)p.data)[(u64)row * p.width + i] = ends ? (T)p.end : (T)below(number, p.vocabulary);
        }
    }
}

KERNEL(drawn_tokens_u16, DrawnTokensParams) {
    drawn_tokens<u16>(p);
}

KERNEL(drawn_tokens_i32, DrawnTokensParams) {
    drawn_tokens<i32>(p);
}

KERNEL(drawn_tokens_i64, DrawnTokensParams) {
    drawn_tokens<i64>(p);
}
