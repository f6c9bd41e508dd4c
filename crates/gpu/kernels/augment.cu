// Crops, mirrors, changes colours at random, erases a part, mixes with another picture and normalises pictures of one size (bytes, HWC,
// three channels).
//
// `augment_plans` draws what happens to each picture, one thread per picture. Contrast needs the mean of the colours before it:
// `augment_sums`, `augment_folds` and `augment_means` find it, as whole numbers, so that the order of additions does not matter. `augment_*` does
// all to each pixel in one pass; a picture that is mixed is made of its own pixels and those of the picture before it, each with its own
// colours. `augment_targets` mixes the labels as much. Plans and sums are passed in scratch memory.
#include "crop.cuh"

/// What happens to a picture.
struct Plan {
    /// Of brightness, contrast and saturation; and the turn of the hue.
    float factor[4];
    /// Which of these comes first, second, …: four bits each.
    u32 order;
    /// Whether colours change, and whether the picture becomes gray.
    u32 jittered;
    u32 gray;
    /// The mean of the grays before the contrast changes.
    float mean;
    /// The part that is erased.
    u32 top;
    u32 left;
    u32 bottom;
    u32 right;
    /// How the picture is mixed with the one before it, and its own share.
    u32 mixed;
    float own;
    /// The part that is the other's, where one is pasted.
    u32 pasted[4];
};
static_assert(sizeof(Plan) == 72, "as in augment.rs");

enum { ALONE, BLENDED, PASTED };

enum { BRIGHTNESS, CONTRAST, SATURATION, HUE };

/// Partial sums of a picture, as in augment.rs, and those that one thread adds.
const u32 PARTS = 1024, FOLD = 32;

/// A gray of 1 in sums.
const float ONE = 16777216.0f;

struct AugmentParams {
    ImageParams image;
    Plan* plans;
    /// Null if no contrast changes.
    u64* sums;
    /// From and to of each factor.
    float ranges[4][2];
    /// Colours change, become gray, and a part is erased, if a draw of 53 bits is below these.
    u64 jitter_below;
    u64 gray_below;
    u64 erase_below;
    /// From and to of the erased part's share of the area.
    double area[2];
    /// Logarithms of from and to of its aspect ratio.
    double ratio[2];
    /// A picture is mixed, and then by a pasted part, if a draw of 53 bits is below these.
    u64 mix_below;
    u64 paste_below;
    /// The parameters of the distributions of shares: of blended pictures, and of those with a pasted part.
    double alpha[2];
    const i64* labels;
    float* targets;
    u64 classes;
};
static_assert(sizeof(AugmentParams) == 304, "as in augment.rs");

/// The first lane of the draws here. Those before it are of crops and mirrors.
const u64 LANE = 64;

INLINE bool chance(u64 key, u64 lane, u64 below) {
    return (at(key, LANE + lane) >> 11) < below;
}

INLINE double between(u64 key, u64 lane, double from, double to) {
    return from + unit(at(key, LANE + lane)) * (to - from);
}

/// One of the 24 orders of four things.
INLINE u32 order_of(u32 number) {
    u32 left = 0x3210, order = 0, orders = 6;
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        const u32 k = 4 * (number / orders);
        number %= orders;
        order |= (left >> k & 15) << (4 * i);
        left = (left & ((1u << k) - 1)) | (left >> (k + 4) << k);
        orders = i == 0 ? 2 : 1;
    }
    return order;
}

/// Ten tries of area, aspect ratio, top and left, as torchvision's RandomErasing makes them; none if no part fits.
INLINE void erase(Plan& plan, const AugmentParams& p, u64 key) {
    const u32 height = p.image.out.height, width = p.image.out.width;
    const double all = (double)width * height;
#pragma unroll 1
    for (u64 lane = 8; lane < 48; lane += 4) {
        const double area = all * between(key, lane, p.area[0], p.area[1]);
        const double ratio = exp(between(key, lane + 1, p.ratio[0], p.ratio[1]));
        const double h = rint(sqrt(area * ratio)), w = rint(sqrt(area / ratio));
        if (h < height && w < width) {
            plan.top = (u32)below(at(key, LANE + lane + 2), (u64)(height - (u32)h) + 1);
            plan.left = (u32)below(at(key, LANE + lane + 3), (u64)(width - (u32)w) + 1);
            plan.bottom = plan.top + (u32)h;
            plan.right = plan.left + (u32)w;
            return;
        }
    }
}

/// A draw of the distribution Beta(alpha, alpha): by Jöhnk (Metrika 8, 1964) for alpha up to 1, by Cheng (BB, Communications of the ACM
/// 21, 1978) above. Fewer than one in 10^9 draws are refused 32 times: a half, then.
INLINE double beta(u64 key, double alpha) {
#pragma unroll 1
    for (u64 lane = 52; lane < 116; lane += 2) {
        // Above 0, and below 1 where that matters.
        const double u = 1.0 - unit(at(key, LANE + lane)), v = 1.0 - unit(at(key, LANE + lane + 1));
        if (alpha <= 1.0) {
            const double x = log(u) / alpha, y = log(v) / alpha;
            if (exp(x) + exp(y) <= 1.0) {
                return 1.0 / (1.0 + exp(y - x));
            }
        } else if (u < 1.0) {
            const double step = sqrt(alpha), odds = log(u / (1.0 - u)) / step;
            const double w = alpha * exp(odds), z = u * u * v, r = (alpha + step) * odds - 1.3862943611198906;
            if (r + 2.0 * alpha * log(2.0 * alpha / (alpha + w)) >= log(z)) {
                return w / (alpha + w);
            }
        }
    }
    return 0.5;
}

/// How a picture is mixed: by MixUp (Zhang and others, ICLR 2018) or CutMix (Yun and others, ICCV 2019), as torchvision does it.
INLINE void mix(Plan& plan, const AugmentParams& p, u64 key) {
    const bool pastes = chance(key, 49, p.paste_below);
    const double own = beta(key, p.alpha[pastes]);
    plan.mixed = pastes ? PASTED : BLENDED;
    plan.own = (float)own;
    if (pastes) {
        const u32 height = p.image.out.height, width = p.image.out.width;
        const double half = 0.5 * sqrt(1.0 - own);
        const i64 y = (i64)below(at(key, LANE + 50), height), x = (i64)below(at(key, LANE + 51), width);
        const i64 h = (i64)(half * height), w = (i64)(half * width);
        plan.pasted[0] = (u32)(y - h > 0 ? y - h : 0);
        plan.pasted[1] = (u32)(x - w > 0 ? x - w : 0);
        plan.pasted[2] = (u32)(y + h < height ? y + h : height);
        plan.pasted[3] = (u32)(x + w < width ? x + w : width);
        const double part = (double)(plan.pasted[2] - plan.pasted[0]) * (plan.pasted[3] - plan.pasted[1]);
        plan.own = (float)(1.0 - part / ((double)height * width));
    }
}

KERNEL(augment_plans, AugmentParams) {
#pragma unroll 1
    for (u64 row = first(); row < p.image.out.rows; row += stride()) {
        const u64 key = p.image.keys[row];
        Plan plan = {};
        for (int i = 0; i < 4; i++) {
            plan.factor[i] = (float)between(key, i, p.ranges[i][0], p.ranges[i][1]);
        }
        plan.order = order_of((u32)below(at(key, LANE + 4), 24));
        plan.jittered = chance(key, 5, p.jitter_below);
        plan.gray = chance(key, 6, p.gray_below);
        if (chance(key, 7, p.erase_below)) {
            erase(plan, p, key);
        }
        if (p.image.out.rows > 1 && chance(key, 48, p.mix_below)) {
            mix(plan, p, key);
        }
        p.plans[row] = plan;
    }
}

INLINE float within_one(float value) {
    return fminf(fmaxf(value, 0.0f), 1.0f);
}

INLINE float gray_of(const float (&v)[3]) {
    return 0.2989f * v[0] + 0.587f * v[1] + 0.114f * v[2];
}

INLINE void blend(float (&v)[3], float other, float factor) {
#pragma unroll
    for (int c = 0; c < 3; c++) {
        v[c] = within_one(factor * v[c] + (1.0f - factor) * other);
    }
}

/// Turns the hue, a circle of length 1.
INLINE void turn(float (&v)[3], float by) {
    const float r = v[0], g = v[1], b = v[2];
    const float most = fmaxf(fmaxf(r, g), b), spread = most - fminf(fminf(r, g), b);
    if (spread == 0.0f || by == 0.0f) {
        return;
    }
    const float s = spread / most, inverse = 1.0f / spread;
    const float rc = (most - r) * inverse, gc = (most - g) * inverse, bc = (most - b) * inverse;
    float h = most == r ? bc - gc : most == g ? 2.0f + rc - bc : 4.0f + gc - rc;
    h = h * (1.0f / 6.0f) + 1.0f + by;
    h -= floorf(h);
    const float six = h * 6.0f, whole = floorf(six), f = six - whole;
    const float low = within_one(most * (1.0f - s));
    const float down = within_one(most * (1.0f - s * f)), up = within_one(most * (1.0f - s * (1.0f - f)));
    const u32 sector = (u32)whole % 6;
    v[0] = sector == 0 || sector == 5 ? most : sector == 1 ? down : sector == 4 ? up : low;
    v[1] = sector == 1 || sector == 2 ? most : sector == 3 ? down : sector == 0 ? up : low;
    v[2] = sector == 3 || sector == 4 ? most : sector == 5 ? down : sector == 2 ? up : low;
}

/// Changes colours in the plan's order; with `before`, only those steps that come before the contrast.
INLINE void jitter(const Plan& plan, float (&v)[3], bool before) {
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        const u32 step = plan.order >> (4 * i) & 15;
        if (step == CONTRAST) {
            if (before) {
                return;
            }
            blend(v, plan.mean, plan.factor[CONTRAST]);
        } else if (step == BRIGHTNESS) {
            blend(v, 0.0f, plan.factor[BRIGHTNESS]);
        } else if (step == SATURATION) {
            blend(v, gray_of(v), plan.factor[SATURATION]);
        } else {
            turn(v, plan.factor[HUE]);
        }
    }
}

/// Four neighbours, from 0 to 1.
INLINE void read(const Crop& crop, const Crop::Row& common, u32 y, u32 x, u32 count, float (&value)[4][3]) {
    crop.pixels<3>(common, y, x, count, value);
#pragma unroll
    for (int i = 0; i < 12; i++) {
        value[i / 3][i % 3] = share(value[i / 3][i % 3]);
    }
}

KERNEL(augment_sums, AugmentParams) {
    const Output& o = p.image.out;
    const u32 groups = (o.width + 3) / 4, all = groups * o.height;
    const Crop crop = {p.image};
    for (u32 row = blockIdx.y; row < o.rows; row += gridDim.y) {
        const Crop::Row common = crop.row(row);
        const Plan plan = p.plans[row];
        for (u64 part = first(); part < PARTS; part += stride()) {
            u64 sum = 0;
#pragma unroll 1
            for (u32 group = (u32)part; plan.jittered && group < all; group += PARTS) {
                const u32 y = group / groups, x = (group - y * groups) * 4;
                const u32 count = o.width - x < 4 ? o.width - x : 4;
                float value[4][3];
                read(crop, common, y, x, count, value);
#pragma unroll
                for (u32 i = 0; i < 4; i++) {
                    jitter(plan, value[i], true);
                    sum += i < count ? (u64)(gray_of(value[i]) * ONE) : 0;
                }
            }
            p.sums[row * (u64)PARTS + part] = sum;
        }
    }
}

/// The sum of every 32nd part.
INLINE u64 fold(u64* parts, u32 every) {
    u64 sum = 0;
#pragma unroll
    for (u32 i = 0; i < FOLD; i++) {
        sum += parts[i * every];
    }
    return sum;
}

/// Leaves the first 32 sums of each row, each of 32 parts.
KERNEL(augment_folds, AugmentParams) {
    for (u32 row = blockIdx.y; row < p.image.out.rows; row += gridDim.y) {
        for (u64 part = first(); part < PARTS / FOLD; part += stride()) {
            u64* parts = p.sums + row * (u64)PARTS + part;
            *parts = fold(parts, PARTS / FOLD);
        }
    }
}

KERNEL(augment_means, AugmentParams) {
    const double pixels = (double)p.image.out.width * p.image.out.height;
    for (u64 row = first(); row < p.image.out.rows; row += stride()) {
        const u64 sum = fold(p.sums + row * PARTS, 1);
        p.plans[row].mean = (float)((double)sum / (pixels * ONE));
    }
}

/// The row before, of which a picture is mixed.
INLINE u32 before(u32 row, u32 rows) {
    return row > 0 ? row - 1 : rows - 1;
}

/// A pixel's colours after all changes, from 0 to 255, of its value from 0 to 1.
INLINE void color(const Plan& plan, float (&value)[3]) {
    if (plan.jittered) {
        jitter(plan, value, false);
    }
    if (plan.gray) {
        value[0] = value[1] = value[2] = gray_of(value);
    }
#pragma unroll
    for (int c = 0; c < 3; c++) {
        value[c] = value[c] * 255.0f;
    }
}

INLINE bool is_erased(const Plan& plan, u32 y, u32 x) {
    return y >= plan.top && y < plan.bottom && x >= plan.left && x < plan.right;
}

/// A value of an erased pixel that is 0 after the normalisation, nearly.
template <class E>
INLINE float erased_value(const Output& o, int c) {
    return E::IS_BYTE ? 0.0f : o.mean[c] * 255.0f;
}

/// Mixes a pixel with that of the row before; returns whether it is erased then.
template <class E>
INLINE bool mixed(const AugmentParams& p, u32 row, const Crop::Row& common, u32 y, u32 x, bool erased, float (&value)[3]) {
    // Plans are read where they are used, since they would take many registers.
    const Output& o = p.image.out;
    const Plan &plan = p.plans[row], &other = p.plans[before(row, o.rows)];
    const bool in = y >= plan.pasted[0] && y < plan.pasted[2] && x >= plan.pasted[1] && x < plan.pasted[3];
    if (plan.mixed == PASTED && !in) {
        return erased;
    }
    const u8* pixel = common.from + ((u64)y * p.image.width + (common.flip ? o.width - 1 - x : x)) * 3;
    float second[3];
#pragma unroll
    for (int c = 0; c < 3; c++) {
        second[c] = share((float)pixel[c]);
    }
    color(other, second);
    const bool second_erased = is_erased(other, y, x);
#pragma unroll
    for (int c = 0; c < 3; c++) {
        const float a = erased ? erased_value<E>(o, c) : value[c], b = second_erased ? erased_value<E>(o, c) : second[c];
        value[c] = plan.mixed == PASTED ? second[c] : plan.own * a + (1.0f - plan.own) * b;
    }
    return plan.mixed == PASTED && second_erased;
}

template <class E>
INLINE void augment(const AugmentParams& p) {
    const Output& o = p.image.out;
    const u32 groups = (o.width + 3) / 4, all = groups * o.height;
    const Crop crop = {p.image};
    for (u32 row = blockIdx.y; row < o.rows; row += gridDim.y) {
        const Crop::Row common = crop.row(row);
        const Plan plan = p.plans[row];
#pragma unroll 1
        for (u64 group = first(); group < all; group += stride()) {
            const u32 y = (u32)group / groups, x = ((u32)group - y * groups) * 4;
            const u32 count = o.width - x < 4 ? o.width - x : 4;
            float value[4][3];
            read(crop, common, y, x, count, value);
            u32 erased = 0;
#pragma unroll
            for (u32 i = 0; i < 4; i++) {
                color(plan, value[i]);
                erased |= (u32)is_erased(plan, y, x + i) << i;
            }
            if (plan.mixed != ALONE) {
                const Crop::Row other = crop.row(before(row, o.rows));
#pragma unroll
                for (u32 i = 0; i < 4; i++) {
                    const bool hidden = i < count && mixed<E>(p, row, other, y, x + i, erased >> i & 1, value[i]);
                    erased = (erased & ~(1u << i)) | (u32)hidden << i;
                }
            }
            put<E, 3>(o, row, y, x, count, value, erased);
        }
    }
}

/// Shares of classes, of which the labels are the classes of pictures before they are mixed.
KERNEL(augment_targets, AugmentParams) {
    for (u32 row = blockIdx.y; row < p.image.out.rows; row += gridDim.y) {
        const Plan& plan = p.plans[row];
        const i64 own = p.labels[row], other = p.labels[before(row, p.image.out.rows)];
        const float share = plan.mixed == ALONE ? 1.0f : plan.own;
        for (u64 c = first(); c < p.classes; c += stride()) {
            const float of_own = own == (i64)c ? share : 0.0f, of_other = other == (i64)c ? 1.0f - share : 0.0f;
            p.targets[row * p.classes + c] = of_own + of_other;
        }
    }
}

KERNEL(augment_u8, AugmentParams) {
    augment<U8>(p);
}

KERNEL(augment_f16, AugmentParams) {
    augment<F16>(p);
}

KERNEL(augment_bf16, AugmentParams) {
    augment<BF16>(p);
}

KERNEL(augment_f32, AugmentParams) {
    augment<F32>(p);
}
