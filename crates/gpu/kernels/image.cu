// Crops, mirrors and normalises pictures of one size (bytes, HWC).
#include "crop.cuh"

KERNEL(image_u8, ImageParams) {
    paint<U8>(p.out, Crop{p});
}

KERNEL(image_f16, ImageParams) {
    paint<F16>(p.out, Crop{p});
}

KERNEL(image_bf16, ImageParams) {
    paint<BF16>(p.out, Crop{p});
}

KERNEL(image_f32, ImageParams) {
    paint<F32>(p.out, Crop{p});
}
