// Crops, mirrors, turns, changes colours at random, blurs, erases a part, mixes with another picture and normalises pictures of one size
// (bytes, HWC, three channels).
//
// `augment_plans` draws what happens to each picture, one thread per picture. Contrast needs the mean of the colours before it:
// `augment_sums`, `augment_folds` and `augment_means` find it, as whole numbers, so that the order of additions does not matter. `augment_*` applies
// all changes to each pixel in one pass; a picture that is mixed is made of its own pixels and those of the picture before it, each with its own
// colours. Of pictures that are blurred `augment_colors` stores the colours before that, and `augment_across` and `augment_down` blur these
// with the weights of `augment_weights`.
// `augment_targets` mixes the labels as much as the pictures. Plans, sums and blurred pictures are passed in scratch memory.
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
    /// Whether the picture turns around its centre, and the cosine and sine of the angle, times 2^30.
    u32 turned;
    i32 cosine;
    i32 sine;
    u32 blurred;
    /// The crop, as `Crop::row` gives it: bytes before it, and whether it is mirrored.
    u64 skipped;
    u32 flip;
    /// The standard deviation of the blur.
    float sigma;
};
static_assert(sizeof(Plan) == 104, "as in augment.rs");

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
    /// A picture turns, and is blurred, if a draw of 53 bits is below these.
    u64 turn_below;
    u64 blur_below;
    /// From and to of the angle, in half turns to the left.
    double angle[2];
    /// From and to of the standard deviation, in pixels.
    double sigma[2];
    /// The colours of blurred pictures, channels first, before and after, and between the passes; null if none is blurred.
    float* smooth;
    float* between;
    /// How much a pixel counts at each distance, for each picture.
    float* weights;
    /// How many pixels on each side count.
    u64 radius;
};
static_assert(sizeof(AugmentParams) == 400, "as in augment.rs");

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
        const Crop::Row common = Crop{p.image}.row((u32)row);
        plan.skipped = (u64)(common.from - p.image.pixels);
        plan.flip = common.flip;
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
        if (chance(key, 116, p.turn_below)) {
            const double angle = between(key, 117, p.angle[0], p.angle[1]);
            plan.turned = 1;
            plan.cosine = (i32)rint(cospi(angle) * 1073741824.0);
            plan.sine = (i32)rint(sinpi(angle) * 1073741824.0);
        }
        if (p.smooth && chance(key, 118, p.blur_below)) {
            plan.blurred = 1;
            plan.sigma = (float)between(key, 119, p.sigma[0], p.sigma[1]);
        }
        p.plans[row] = plan;
    }
}

/// How far four neighbours see: the radius of the blur, as a multiple of four.
INLINE i32 reach(const AugmentParams& p) {
    return (i32)((p.radius + 3) / 4 * 4);
}

/// Weights of a picture, as in augment.rs: of all distances that four places in reach have to four neighbours, in order.
INLINE u32 weights_of(const AugmentParams& p) {
    return 2 * (u32)reach(p) + 8;
}

/// The weights of a Gaussian, as torchvision's GaussianBlur has them: of whole pixels, and 1 in all.
KERNEL(augment_weights, AugmentParams) {
#pragma unroll 1
    for (u64 row = first(); row < p.image.out.rows; row += stride()) {
        const double sigma = p.plans[row].blurred ? p.plans[row].sigma : 1.0, rate = -0.5 / (sigma * sigma);
        const i32 radius = (i32)p.radius;
        double all = 1.0;
#pragma unroll 1
        for (i32 far = 1; far <= radius; far++) {
            all += 2.0 * exp(rate * (double)(far * far));
        }
        float* table = p.weights + row * weights_of(p);
#pragma unroll 1
        for (i32 i = 0; i < (i32)weights_of(p); i++) {
            const i32 far = i - 3 - reach(p);
            table[i] = far < -radius || far > radius ? 0.0f : (float)(exp(rate * (double)(far * far)) / all);
        }
    }
}

INLINE float gray_of(const float (&v)[3]) {
    return fmaf(0.2989f, v[0], fmaf(0.587f, v[1], 0.114f * v[2]));
}

INLINE void blend(float (&v)[3], float other, float factor) {
    const float rest = (1.0f - factor) * other;
#pragma unroll
    for (int c = 0; c < 3; c++) {
        v[c] = __saturatef(fmaf(factor, v[c], rest));
    }
}

/// A channel of a colour whose hue is so many sixths of the circle from that of the full channel, up to 12.
INLINE float channel(float most, float spread, float away) {
    away = away >= 6.0f ? away - 6.0f : away;
    return fmaf(-spread, __saturatef(fminf(away, 4.0f - away)), most);
}

/// Turns the hue by so many sixths of the circle, -3 to 3: by the hexagon of HSV (A. R. Smith, "Color gamut transform pairs", 1978).
INLINE void turn(float (&v)[3], float by) {
    const float r = v[0], g = v[1], b = v[2];
    const float most = fmaxf(fmaxf(r, g), b), spread = most - fminf(fminf(r, g), b);
    const float difference = most == r ? g - b : most == g ? b - r : r - g;
    const float full = most == r ? 0.0f : most == g ? 2.0f : 4.0f;
    // -4 to 8.
    const float hue = full + by + (spread > 0.0f ? difference * reciprocal(spread) : 0.0f);
    const float sixths = hue < 0.0f ? hue + 6.0f : hue >= 6.0f ? hue - 6.0f : hue;
    v[0] = channel(most, spread, sixths + 5.0f);
    v[1] = channel(most, spread, sixths + 3.0f);
    v[2] = channel(most, spread, sixths + 1.0f);
}

/// Changes the colours of four pixels in the plan's order; with `before`, only by those steps that come before the contrast.
INLINE void jitter(const Plan& plan, float (&value)[4][3], bool before) {
#pragma unroll 1
    for (u32 order = plan.order, i = 0; i < 4; i++, order >>= 4) {
        const u32 step = order & 15;
        const float factor = plan.factor[step];
        if (step == HUE) {
#pragma unroll
            for (int k = 0; k < 4 && factor != 0.0f; k++) {
                turn(value[k], 6.0f * factor);
            }
        } else if (step == SATURATION) {
#pragma unroll
            for (int k = 0; k < 4; k++) {
                blend(value[k], gray_of(value[k]), factor);
            }
        } else if (step == CONTRAST && before) {
            return;
        } else {
            const float other = step == CONTRAST ? plan.mean : 0.0f;
#pragma unroll
            for (int k = 0; k < 4; k++) {
                blend(value[k], other, factor);
            }
        }
    }
}

/// One pixel of a picture that turns, of the four around its place; those outside of the crop are black.
INLINE void turned(const Crop::Row& common, const Plan& plan, const ImageParams& p, u32 y, u32 x, float (&value)[3]) {
    const i32 width = (i32)p.out.width, height = (i32)p.out.height;
    // From the centre, in half pixels; then in units of 2^-31 pixels, of which floors are exact.
    const i64 right = 2 * (i64)x + 1 - width, below = 2 * (i64)y + 1 - height;
    const i64 across = right * plan.cosine - below * plan.sine + ((i64)(width - 1) << 30);
    const i64 down = right * plan.sine + below * plan.cosine + ((i64)(height - 1) << 30);
    const i32 left = (i32)(across >> 31), top = (i32)(down >> 31);
    const float beside = (float)(u32)(across & 0x7fffffff) * (1.0f / 2147483648.0f);
    const float under = (float)(u32)(down & 0x7fffffff) * (1.0f / 2147483648.0f);
    value[0] = value[1] = value[2] = 0.0f;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const i32 at_y = top + (k >> 1), at_x = left + (k & 1);
        if (at_y >= 0 && at_y < height && at_x >= 0 && at_x < width) {
            const float weight = (k >> 1 ? under : 1.0f - under) * (k & 1 ? beside : 1.0f - beside);
            const u8* pixel = common.from + ((u64)at_y * p.width + (common.flip ? width - 1 - at_x : at_x)) * 3;
#pragma unroll
            for (int c = 0; c < 3; c++) {
                value[c] = fmaf(weight, (float)pixel[c], value[c]);
            }
        }
    }
}

/// Four neighbours, from 0 to 1.
INLINE void read(const AugmentParams& p, const Plan& plan, const Groups& at, float (&value)[4][3]) {
    const Crop::Row common = Crop{p.image}.row_at(plan.skipped, plan.flip);
    if (plan.turned) {
#pragma unroll 1
        for (u32 i = 0; i < 4; i++) {
            float one[3];
            turned(common, plan, p.image, at.y, at.x + i, one);
#pragma unroll
            for (u32 k = 0; k < 12; k++) {
                value[k / 3][k % 3] = k / 3 == i || i == 0 ? one[k % 3] : value[k / 3][k % 3];
            }
        }
    } else {
        Crop{p.image}.pixels<3>(common, at, value);
    }
#pragma unroll
    for (int i = 0; i < 12; i++) {
        value[i / 3][i % 3] *= 1.0f / 255.0f;
    }
}

KERNEL(augment_sums, AugmentParams) {
    const Output& o = p.image.out;
    for (u32 row = blockIdx.y; row < o.rows; row += gridDim.y) {
        const Plan& plan = p.plans[row];
        for (u64 part = first(); part < PARTS; part += stride()) {
            u64 sum = 0;
#pragma unroll 1
            for (Groups at(o.width, (u32)part, PARTS); plan.jittered && at.y < o.height; at.next()) {
                float value[4][3];
                read(p, plan, at, value);
                jitter(plan, value, true);
                u32 four = 0;
#pragma unroll
                for (u32 i = 0; i < 4; i++) {
                    four += i < at.count() ? (u32)(gray_of(value[i]) * ONE) : 0;
                }
                sum += four;
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

/// The colours of four neighbours after all changes but the last, from 0 to 1.
INLINE void colors(const AugmentParams& p, const Plan& plan, const Groups& at, float (&value)[4][3]) {
    read(p, plan, at, value);
    if (plan.jittered) {
        jitter(plan, value, false);
    }
    if (plan.gray) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            value[i][0] = value[i][1] = value[i][2] = gray_of(value[i]);
        }
    }
}

/// A picture's first value in scratch memory.
INLINE u64 passed(const Output& o, u32 row) {
    return (u64)row * 3 * o.height * o.width;
}

/// Four neighbours: `whole` if all four are, and their address is aligned.
template <bool whole>
INLINE Four<float> load_four(const float* from, u32 count) {
    Four<float> four;
    if (whole) {
        four = *(const Four<float>*)from;
    } else {
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            four.value[i] = i < count ? from[i] : 0.0f;
        }
    }
    return four;
}

/// Stores four neighbours, as `load_four` reads them.
template <bool whole>
INLINE void store_four(float* to, u32 count, float a, float b, float c, float d) {
    const Four<float> four = {{a, b, c, d}};
    if (whole) {
        *(Four<float>*)to = four;
    } else {
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            if (i < count) {
                to[i] = four.value[i];
            }
        }
    }
}

KERNEL(augment_colors, AugmentParams) {
    const Output& o = p.image.out;
    const u64 plane = (u64)o.height * o.width;
    for (u32 row = blockIdx.y; row < o.rows; row += gridDim.y) {
        const Plan& plan = p.plans[row];
#pragma unroll 1
        for (Groups at(o.width); plan.blurred && at.y < o.height; at.next()) {
            float value[4][3];
            colors(p, plan, at, value);
            float* to = p.smooth + passed(o, row) + (u64)at.y * o.width + at.x;
#pragma unroll
            for (int c = 0; c < 3; c++, to += plane) {
                if (o.width % 4 == 0) {
                    store_four<true>(to, 4, value[0][c], value[1][c], value[2][c], value[3][c]);
                } else {
                    store_four<false>(to, at.count(), value[0][c], value[1][c], value[2][c], value[3][c]);
                }
            }
        }
    }
}

/// A place in a line of so many, mirrored at its first and last; some place where it is too far for that.
INLINE u32 reflected(i32 at, u32 length) {
    const u32 before = at < 0 ? (u32)-at : (u32)at;
    const u32 place = before < length ? before : 2 * (length - 1) - before;
    return place < length ? place : length - 1;
}

/// How much four places count for four neighbours, while these places go from one end of the reach to the other, four at a time.
struct Weights {
    const float* table;
    float of[8];

    METHOD Weights(const AugmentParams& p, u32 row) : table(p.weights + row * weights_of(p)) {
        next();
    }

    METHOD void next() {
        const Four<float> four = *(const Four<float>*)table;
        table += 4;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            of[i] = of[4 + i];
            of[4 + i] = four.value[i];
        }
    }

    /// Of a place for a neighbour.
    METHOD float at(int place, int neighbour) const {
        return of[3 + place - neighbour];
    }
};

/// Blurs four neighbours along their line. `inside`: the line has all that they see, and is aligned.
template <bool inside>
INLINE void across(const AugmentParams& p, u32 row, u32 y, u32 x) {
    const Output& o = p.image.out;
    const u64 plane = (u64)o.height * o.width, start = passed(o, row) + (u64)y * o.width;
    const float* line = p.smooth + start;
    float sum[3][4] = {};
    Weights weights(p, row);
#pragma unroll 1
    for (i32 from = (i32)x - reach(p); from <= (i32)x + reach(p); from += 4) {
        weights.next();
#pragma unroll
        for (int c = 0; c < 3; c++) {
            const float* channel = line + c * plane;
            Four<float> four;
            if (inside) {
                four = *(const Four<float>*)(channel + from);
            } else {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    four.value[i] = channel[reflected(from + i, o.width)];
                }
            }
#pragma unroll
            for (int i = 0; i < 16; i++) {
                sum[c][i % 4] = fmaf(weights.at(i / 4, i % 4), four.value[i / 4], sum[c][i % 4]);
            }
        }
    }
    float* to = p.between + start + x;
#pragma unroll
    for (int c = 0; c < 3; c++, to += plane) {
        const float(&v)[4] = sum[c];
        store_four<inside>(to, o.width - x < 4 ? o.width - x : 4, v[0], v[1], v[2], v[3]);
    }
}

KERNEL(augment_across, AugmentParams) {
    const Output& o = p.image.out;
    // Groups of a line, and those of them that see no end of it. These come first, so that neighbouring threads do the same.
    const u32 groups = (o.width + 3) / 4, end = (u32)reach(p) / 4;
    const u32 inside = o.width % 4 == 0 && groups > 2 * end ? groups - 2 * end : 0, outside = groups - inside;
    for (u32 row = blockIdx.y; row < o.rows; row += gridDim.y) {
#pragma unroll 1
        for (u32 i = (u32)first(); p.plans[row].blurred && i < groups * o.height; i += (u32)stride()) {
            if (i < inside * o.height) {
                across<true>(p, row, i / inside, (end + i % inside) * 4);
            } else {
                const u32 rest = i - inside * o.height, group = rest % outside;
                across<false>(p, row, rest / outside, (inside && group >= end ? group + inside : group) * 4);
            }
        }
    }
}

/// Blurs sixteen neighbours, four lines of four, along their columns. `whole`: lines are aligned.
template <bool whole>
INLINE void down(const AugmentParams& p, u32 row, u32 y, u32 x, u64 plane) {
    const Output& o = p.image.out;
    const u32 count = o.width - x < 4 ? o.width - x : 4;
    const float* column = p.between + plane + x;
    float sum[4][4] = {};
    Weights weights(p, row);
#pragma unroll 1
    for (i32 from = (i32)y - reach(p); from <= (i32)y + reach(p); from += 4) {
        weights.next();
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const Four<float> four = load_four<whole>(column + (u64)reflected(from + i, o.height) * o.width, count);
#pragma unroll
            for (int k = 0; k < 16; k++) {
                sum[k / 4][k % 4] = fmaf(weights.at(i, k / 4), four.value[k % 4], sum[k / 4][k % 4]);
            }
        }
    }
    float* to = p.smooth + plane + (u64)y * o.width + x;
#pragma unroll
    for (int k = 0; k < 4; k++, to += o.width) {
        if (y + k < o.height) {
            store_four<whole>(to, count, sum[k][0], sum[k][1], sum[k][2], sum[k][3]);
        }
    }
}

KERNEL(augment_down, AugmentParams) {
    const Output& o = p.image.out;
    const u32 groups = (o.width + 3) / 4, tall = (o.height + 3) / 4;
    for (u32 row = blockIdx.y; row < o.rows; row += gridDim.y) {
#pragma unroll 1
        for (u32 i = (u32)first(); p.plans[row].blurred && i < 3 * tall * groups; i += (u32)stride()) {
            const u32 lines = i / groups, x = (i - lines * groups) * 4, c = lines / tall, y = (lines - c * tall) * 4;
            const u64 plane = passed(o, row) + (u64)c * o.height * o.width;
            if (o.width % 4 == 0) {
                down<true>(p, row, y, x, plane);
            } else {
                down<false>(p, row, y, x, plane);
            }
        }
    }
}

/// Which of four neighbours are erased.
INLINE u32 erased_of(const Plan& plan, const Groups& at) {
    u32 erased = 0;
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        const bool is = at.y >= plan.top && at.y < plan.bottom && at.x + i >= plan.left && at.x + i < plan.right;
        erased |= (u32)is << i;
    }
    return erased;
}

/// Mixes four neighbours with those of the row before; returns which are erased then.
template <class E>
INLINE u32 mixed(const Output& o, const Plan& plan, const Groups& at, u32 erased, u32 second_erased, const float (&second)[4][3], float (&value)[4][3]) {
    const bool line = at.y >= plan.pasted[0] && at.y < plan.pasted[2];
    u32 hidden = 0;
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        const bool a = erased >> i & 1, b = second_erased >> i & 1;
        const bool in = line && at.x + i >= plan.pasted[1] && at.x + i < plan.pasted[3];
        hidden |= (u32)(plan.mixed == PASTED && (in ? b : a)) << i;
#pragma unroll
        for (int c = 0; c < 3; c++) {
            // An erased value is 0 after the normalisation.
            const float none = E::IS_BYTE ? 0.0f : o.mean[c];
            const float blended = fmaf(plan.own, a ? none : value[i][c], (1.0f - plan.own) * (b ? none : second[i][c]));
            value[i][c] = plan.mixed != PASTED ? blended : in ? second[i][c] : value[i][c];
        }
    }
    return hidden;
}

template <class E>
INLINE void augment(const AugmentParams& p) {
    const Output& o = p.image.out;
    const u64 plane = (u64)o.height * o.width;
    for (u32 row = blockIdx.y; row < o.rows; row += gridDim.y) {
        const u32 pictures = p.plans[row].mixed == ALONE ? 1 : 2;
#pragma unroll 1
        for (Groups at(o.width); at.y < o.height; at.next()) {
            float value[4][3];
            u32 erased = 0;
            // One after another, since both at once would take too many registers.
#pragma unroll 1
            for (u32 k = 0; k < pictures; k++) {
                const u32 of = k ? before(row, o.rows) : row;
                const Plan& plan = p.plans[of];
                float next[4][3];
                if (plan.blurred) {
                    const float* from = p.smooth + passed(o, of) + (u64)at.y * o.width + at.x;
#pragma unroll
                    for (int c = 0; c < 3; c++, from += plane) {
                        const Four<float> four =
                            o.width % 4 == 0 ? load_four<true>(from, 4) : load_four<false>(from, at.count());
#pragma unroll
                        for (int i = 0; i < 4; i++) {
                            next[i][c] = four.value[i];
                        }
                    }
                } else {
                    colors(p, plan, at, next);
                }
                const u32 next_erased = erased_of(plan, at);
                if (k) {
                    erased = mixed<E>(o, p.plans[row], at, erased, next_erased, next, value);
                } else {
                    erased = next_erased;
#pragma unroll
                    for (int i = 0; i < 12; i++) {
                        value[i / 3][i % 3] = next[i / 3][i % 3];
                    }
                }
            }
#pragma unroll
            for (int i = 0; i < 12; i++) {
                value[i / 3][i % 3] *= 255.0f;
            }
            put<E, 3>(o, row, at.y, at.x, at.count(), value, erased);
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
