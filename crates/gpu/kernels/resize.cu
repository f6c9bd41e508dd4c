// Resizes pictures of any size (bytes, HWC, one after another) to one size: crops, resamples (bilinear, antialiased),
// mirrors and normalises.
//
// `resize_boxes` computes the crop of each picture, one thread per picture; `resize_taps` what each line and column of the output is
// made of; `resize_*` gathers each pixel from those that its triangle filter covers. Crops and taps are passed in scratch memory.
#include "pixels.cuh"

/// A crop of a picture, in its pixels.
struct Box {
    double left;
    double top;
    /// Input pixels that one output pixel covers.
    double across;
    double down;
    /// Pixels that count: from, and up to but not including.
    u32 from_x;
    u32 to_x;
    u32 from_y;
    u32 to_y;
    u32 flip;
    /// Whether the picture is complete.
    u32 whole;
};
static_assert(sizeof(Box) == 56, "as in resize.rs");

/// The pixels along one side that a pixel covers: `count` from `from` on. Pixel k weighs 1 - |near + k| × inverse.
struct alignas(16) Taps {
    u32 from;
    u32 count;
    float near;
    float inverse;
};

struct ResizeParams {
    Output out;
    const u8* values;
    /// The start of each picture in `values`; the last entry is their end.
    const i64* offsets;
    /// Height, width and channels of each.
    const i32* shapes;
    /// The random key of each picture; null if nothing is random.
    const u64* keys;
    /// Whether each picture is mirrored; null if that is random, or never.
    const u8* flips;
    Box* boxes;
    /// Of each picture those of the columns, as they are stored, then those of the lines.
    Taps* taps;
    /// Of `values`.
    u64 bytes;
    /// A picture is mirrored if its draw of 53 bits is below this.
    u64 flip_below;
    /// Minimum and maximum share of a picture's area.
    double scale_from;
    double scale_to;
    /// Minimum and maximum aspect ratio, and their logarithms.
    double ratio_from;
    double ratio_to;
    double log_from;
    double log_to;
    /// 0: the whole picture; 1: its centre; 2: random.
    u32 part;
    /// The new shorter side, for centres.
    u32 shorter;
};
static_assert(sizeof(ResizeParams) == 224, "as in resize.rs");

INLINE void cut(Box& box, const Output& o, u32 left, u32 top, u32 width, u32 height) {
    box.left = left;
    box.top = top;
    box.across = (double)width / o.width;
    box.down = (double)height / o.height;
    box.from_x = left;
    box.to_x = left + width;
    box.from_y = top;
    box.to_y = top + height;
}

/// The new length of a side when the shorter one becomes `shorter`.
INLINE u64 side(u32 side, u32 shortest, u32 shorter) {
    return (u64)side * shorter / shortest;
}

/// The offset of the centre, ties to even.
INLINE double middle(u64 side, u32 target) {
    return rint((side < target ? 0 : side - target) / 2.0);
}

/// The centre of a picture whose shorter side is resized to `shorter`. Pixels around it count.
INLINE void centre(Box& box, const ResizeParams& p, u32 width, u32 height) {
    const u32 shortest = width < height ? width : height;
    const u64 scaled_width = side(width, shortest, p.shorter), scaled_height = side(height, shortest, p.shorter);
    box.across = (double)width / (double)scaled_width;
    box.down = (double)height / (double)scaled_height;
    box.left = middle(scaled_width, p.out.width) * box.across;
    box.top = middle(scaled_height, p.out.height) * box.down;
    box.from_x = box.from_y = 0;
    box.to_x = width;
    box.to_y = height;
}

INLINE u32 clamped(double value, u32 most) {
    const double whole = rint(value);
    return whole < 1.0 ? 1 : whole > most ? most : (u32)whole;
}

/// The largest central crop with an allowed aspect ratio.
INLINE void fallback(Box& box, const ResizeParams& p, u32 width, u32 height) {
    const double own = (double)width / height;
    u32 w = width, h = height;
    if (own < p.ratio_from) {
        h = clamped(width / p.ratio_from, height);
    } else if (own > p.ratio_to) {
        w = clamped(height * p.ratio_to, width);
    }
    cut(box, p.out, (width - w) / 2, (height - h) / 2, w, h);
}

INLINE double between(u64 number, double from, double to) {
    return from + unit(number) * (to - from);
}

/// Ten tries of area, aspect ratio, top and left: lanes 1 to 40.
INLINE void drawn(Box& box, const ResizeParams& p, u64 key, u32 width, u32 height) {
    const double all = (double)width * height;
#pragma unroll 1
    for (u32 lane = 1; lane <= 40; lane += 4) {
        const double area = all * between(at(key, lane), p.scale_from, p.scale_to);
        const double ratio = exp(between(at(key, lane + 1), p.log_from, p.log_to));
        const double w = rint(sqrt(area * ratio)), h = rint(sqrt(area / ratio));
        if (w >= 1.0 && w <= width && h >= 1.0 && h <= height) {
            const u32 top = (u32)below(at(key, lane + 2), (u64)(height - (u32)h) + 1);
            const u32 left = (u32)below(at(key, lane + 3), (u64)(width - (u32)w) + 1);
            return cut(box, p.out, left, top, (u32)w, (u32)h);
        }
    }
    fallback(box, p, width, height);
}

/// Whether the shape of a picture fits its bytes.
INLINE bool whole(const ResizeParams& p, u64 row) {
    const i64 begin = p.offsets[row], end = p.offsets[row + 1];
    const i32* shape = p.shapes + 3 * row;
    if (begin < 0 || end < begin || (u64)end > p.bytes || shape[0] < 1 || shape[1] < 1) {
        return false;
    }
    return shape[2] == (i32)p.out.channels && (u64)shape[0] * (u64)shape[1] <= (u64)(end - begin) / p.out.channels;
}

KERNEL(resize_boxes, ResizeParams) {
#pragma unroll 1
    for (u64 row = first(); row < p.out.rows; row += stride()) {
        Box box = {};
        box.whole = whole(p, row);
        if (box.whole) {
            const u32 height = (u32)p.shapes[3 * row], width = (u32)p.shapes[3 * row + 1];
            const u64 key = p.keys ? p.keys[row] : 0;
            if (p.part == 0) {
                cut(box, p.out, 0, 0, width, height);
            } else if (p.part == 1) {
                centre(box, p, width, height);
            } else {
                drawn(box, p, key, width, height);
            }
            box.flip = p.flips ? p.flips[row] != 0 : (at(key, 0) >> 11) < p.flip_below;
        }
        p.boxes[row] = box;
    }
}

/// Positions are computed in 64 bits, and weights, which are small differences of them, in 32.
INLINE Taps taps_of(double start, double covered, u32 i, u32 from, u32 to) {
    const double centre = start + (i + 0.5) * covered;
    const double radius = covered < 1.0 ? 1.0 : covered;
    const double low = floor(centre - radius), high = ceil(centre + radius);
    Taps taps;
    taps.from = low < from ? from : (u32)low;
    taps.count = (high > to ? to : (u32)high) - taps.from;
    taps.near = (float)(taps.from + 0.5 - centre);
    taps.inverse = 1.0f / (float)radius;
    return taps;
}

KERNEL(resize_taps, ResizeParams) {
    const u32 width = p.out.width, all = width + p.out.height;
    for (u32 row = blockIdx.y; row < p.out.rows; row += gridDim.y) {
        const Box& box = p.boxes[row];
        for (u64 i = first(); box.whole && i < all; i += stride()) {
            const u32 at = (u32)i;
            p.taps[row * (u64)all + at] =
                at < width ? taps_of(box.left, box.across, box.flip ? width - 1 - at : at, box.from_x, box.to_x)
                           : taps_of(box.top, box.down, at - width, box.from_y, box.to_y);
        }
    }
}

INLINE float weight(const Taps& taps, u32 k) {
    return fmaxf(1.0f - fabsf(taps.near + (float)k) * taps.inverse, 0.0f);
}

/// The weights of the first four pixels, of which those that do not count have none.
INLINE float weights(const Taps& taps, float (&of)[4]) {
    float all = 0.0f;
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        of[i] = i < taps.count ? weight(taps, i) : 0.0f;
        all += of[i];
    }
    return all;
}

/// A pixel of four columns at most, in words; none of them before `p.values`, nor past its end.
template <int C>
INLINE void narrow(const u8* from, u32 width, const Taps& across, const Taps& down, float (&value)[C]) {
    float of[4];
    const float wide = weights(across, of);
    float heavy = 0.0f;
#pragma unroll 1
    for (u32 k = 0; k < down.count; k++) {
        u32 word[C];
        load_words<C>(from + (u64)k * width * C, word);
        const float w = weight(down, k);
        heavy += w;
#pragma unroll
        for (int c = 0; c < C; c++) {
            float sum = 0.0f;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int at = i * C + c;
                sum = fmaf(of[i], (float)(word[at / 4] >> (at % 4 * 8) & 0xff), sum);
            }
            value[c] = fmaf(w, sum, value[c]);
        }
    }
    const float inverse = 1.0f / (heavy * wide);
#pragma unroll
    for (int c = 0; c < C; c++) {
        value[c] *= inverse;
    }
}

/// A pixel of any number of columns, byte by byte: of four at most the same bits as by `narrow`.
template <int C>
INLINE void any(const u8* from, u32 width, const Taps& across, const Taps& down, float (&value)[C]) {
    float wide = 0.0f, heavy = 0.0f;
#pragma unroll 1
    for (u32 j = 0; j < across.count; j++) {
        wide += weight(across, j);
    }
#pragma unroll 1
    for (u32 k = 0; k < down.count; k++, from += (u64)width * C) {
        float sum[C] = {};
#pragma unroll 2
        for (u32 j = 0; j < across.count; j++) {
            const float w = weight(across, j);
#pragma unroll
            for (int c = 0; c < C; c++) {
                sum[c] = fmaf(w, (float)from[j * C + c], sum[c]);
            }
        }
        const float w = weight(down, k);
        heavy += w;
#pragma unroll
        for (int c = 0; c < C; c++) {
            value[c] = fmaf(w, sum[c], value[c]);
        }
    }
    const float inverse = 1.0f / (heavy * wide);
#pragma unroll
    for (int c = 0; c < C; c++) {
        value[c] *= inverse;
    }
}

template <class E, int C>
INLINE void resample(const ResizeParams& p) {
    const Output& o = p.out;
    const u32 all = o.height * o.width;
    for (u32 row = blockIdx.y; row < o.rows; row += gridDim.y) {
        const bool whole = p.boxes[row].whole;
        const u32 width = whole ? (u32)p.shapes[3 * (u64)row + 1] : 0;
        const u8* picture = p.values + (whole ? p.offsets[row] : 0);
        const Taps* taps = p.taps + row * (u64)(o.width + o.height);
#pragma unroll 1
        for (u64 pixel = first(); pixel < all; pixel += stride()) {
            const u32 y = (u32)pixel / o.width;
            const u32 x = (u32)pixel - y * o.width;
            float value[C] = {};
            if (whole) {
                const Taps across = taps[x], down = taps[o.width + y];
                const u8* from = picture + ((u64)down.from * width + across.from) * C;
                const u64 last = (u64)(from - p.values) + (u64)(down.count - 1) * width * C;
                const bool inside = ((u64)from & ~3ull) >= (u64)p.values && last + 4 * C + 3 <= p.bytes;
                if (across.count <= 4 && inside) {
                    narrow<C>(from, width, across, down, value);
                } else {
                    any<C>(from, width, across, down, value);
                }
            }
            put_one<E, C>(o, row, y, x, value);
        }
    }
}

template <class E>
INLINE void resized(const ResizeParams& p) {
    switch (p.out.channels) {
        case 1:
            return resample<E, 1>(p);
        case 3:
            return resample<E, 3>(p);
        default:
            return resample<E, 4>(p);
    }
}

KERNEL(resize_u8, ResizeParams) {
    resized<U8>(p);
}

KERNEL(resize_f16, ResizeParams) {
    resized<F16>(p);
}

KERNEL(resize_bf16, ResizeParams) {
    resized<BF16>(p);
}

KERNEL(resize_f32, ResizeParams) {
    resized<F32>(p);
}
