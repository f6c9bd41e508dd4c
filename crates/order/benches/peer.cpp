// The loops that a numpy-based builder of training orders leaves to C++, in their usual structure:
// one document after the other, every dataset at every sample. Built by peer.py.
#include <algorithm>
#include <cstdint>

extern "C" void sample_rows(const int32_t *lengths, const int32_t *documents, int64_t count, int32_t seq,
                            int64_t samples, int32_t *rows) {
    int64_t row = 0;
    int32_t at = 0, offset = 0;
    rows[0] = rows[1] = 0;
    for (row = 1; row <= samples; ++row) {
        int32_t missing = seq + 1;
        while (missing != 0) {
            int32_t here = lengths[documents[at]] - offset;
            missing -= here;
            if (missing <= 0) {
                offset += missing + here - 1;
                missing = 0;
            } else if (at == count - 1) {
                offset = lengths[documents[at]] - 1;
                break;
            } else {
                ++at;
                offset = 0;
            }
        }
        rows[2 * row] = at;
        rows[2 * row + 1] = offset;
    }
}

extern "C" void blend(const double *weights, int32_t datasets, int64_t size, int64_t *given, int16_t *dataset,
                      int64_t *sample) {
    for (int64_t i = 0; i < size; ++i) {
        double y = std::max(double(i), 1.0);
        int64_t best = 0;
        double most = weights[0] * y - double(given[0]);
        for (int64_t k = 1; k < datasets; ++k) {
            double error = weights[k] * y - double(given[k]);
            if (error > most) {
                most = error;
                best = k;
            }
        }
        dataset[i] = int16_t(best);
        sample[i] = given[best]++;
    }
}
