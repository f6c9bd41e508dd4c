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
