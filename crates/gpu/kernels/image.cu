// Crops, mirrors and normalises pictures of one size (bytes, HWC).
#include "crop.cuh"

template <class E, int C>
INLINE void paint(const ImageParams& p) {
    const Output& o = p.out;
    const Crop crop = {p};
    for (u32 row = blockIdx.y; row < o.rows; row += gridDim.y) {
        const Crop::Row common = crop.row(row);
#pragma unroll 1
        for (Groups at(o.width); at.y < o.height; at.next()) {
            float value[4][C];
            crop.pixels<C>(common, at, value);
            put<E, C>(o, row, at.y, at.x, at.count(), value);
        }
    }
}

template <class E>
INLINE void paint(const ImageParams& p) {
    switch (p.out.channels) {
        case 1:
            return paint<E, 1>(p);
        case 3:
            return paint<E, 3>(p);
        default:
            return paint<E, 4>(p);
    }
}

/// Three channels in planes, elements of two bytes, eight neighbours a thread: what it stores at once is 16 bytes of a plane, and what it
/// needs fits few registers. `Image::launch` says when it may run: lines are whole groups, factors are known, and words around the
/// pixels are within the input.
template <class E>
INLINE void paint_planes(const ImageParams& p) {
    const Output& o = p.out;
    const Crop crop = {p};
    const u32 groups = o.width / 8, plane = o.height * o.width;
    for (u32 row = blockIdx.y; row < o.rows; row += gridDim.y) {
        const Crop::Row common = crop.row(row);
        u16* image = (u16*)o.data + (u64)row * plane * 3;
#pragma unroll 1
        for (u32 group = (u32)first(); group < groups * o.height; group += (u32)stride()) {
            const u32 y = group / groups, x = (group - y * groups) * 8;
            u32 word[6];
            crop.eight(common, y, x, word);
#pragma unroll
            for (int c = 0; c < 3; c++) {
                Four<u32> out;
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const int a = 6 * i + c, b = a + 3;
                    out.value[i] = E::two(scaled<E>(o, byte(word, a), c), scaled<E>(o, byte(word, b), c));
                }
                *(Four<u32>*)(image + (u64)c * plane + 8 * group) = out;
            }
        }
    }
}

/// Four bytes of a channel from four pixels of three.
INLINE u32 channel(u32 low, u32 middle, u32 high, int c) {
    const u32 three = __byte_perm(low, middle, c == 0 ? 0x0630 : c == 1 ? 0x0741 : 0x0052);
    return __byte_perm(three, high, c == 0 ? 0x5210 : c == 1 ? 0x6210 : 0x7410);
}

/// The same for bytes, which only change their places; channels may be last.
INLINE void move_bytes(const ImageParams& p) {
    const Output& o = p.out;
    const Crop crop = {p};
    const u32 groups = o.width / 8, plane = o.height * o.width;
    const u32 between = o.planar ? plane : 8, step = o.planar ? 8 : 24;
    for (u32 row = blockIdx.y; row < o.rows; row += gridDim.y) {
        const Crop::Row common = crop.row(row);
        u8* image = (u8*)o.data + (u64)row * plane * 3;
#pragma unroll 1
        for (u32 group = (u32)first(); group < groups * o.height; group += (u32)stride()) {
            const u32 y = group / groups, x = (group - y * groups) * 8;
            u32 word[6];
            crop.eight(common, y, x, word);
#pragma unroll
            for (int c = 0; c < 3; c++) {
                Pair out;
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const u32 moved = channel(word[3 * i], word[3 * i + 1], word[3 * i + 2], c);
                    out.value[i] = o.planar ? moved : word[2 * c + i];
                }
                *(Pair*)(image + (u64)c * between + (u64)group * step) = out;
            }
        }
    }
}

KERNEL(image_u8, ImageParams) {
    paint<U8>(p);
}

KERNEL(image_f16, ImageParams) {
    paint<F16>(p);
}

KERNEL(image_bf16, ImageParams) {
    paint<BF16>(p);
}

KERNEL(image_f32, ImageParams) {
    paint<F32>(p);
}

KERNEL(planes_f16, ImageParams) {
    paint_planes<F16>(p);
}

KERNEL(planes_bf16, ImageParams) {
    paint_planes<BF16>(p);
}

KERNEL(move_u8, ImageParams) {
    move_bytes(p);
}
