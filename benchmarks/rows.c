// SPDX-License-Identifier: MIT
// What rows.py compares with: each operator as one would write it down, a loop over the rows and
// one over their edges, with the number of features an argument.
#include <math.h>
#include <stdint.h>

typedef int64_t i64;

void weighted_sum(i64 n, i64 d, const i64 *restrict first, const int32_t *restrict node,
                  const float *restrict w, const float *restrict x, float *restrict out)
{
    for (i64 i = 0; i < n; i++) {
        float *row = out + i * d;
        for (i64 c = 0; c < d; c++)
            row[c] = 0;
        for (i64 p = first[i]; p < first[i + 1]; p++)
            for (i64 c = 0; c < d; c++)
                row[c] += w[p] * x[node[p] * d + c];
    }
}

// The edges by source: their destinations, and their numbers.
void weighted_sum_vjp(i64 n, i64 d, const i64 *restrict first, const int32_t *restrict node,
                      const i64 *restrict edge, const float *restrict w, const float *restrict x,
                      const float *restrict g, float *restrict gx, float *restrict gw)
{
    for (i64 j = 0; j < n; j++) {
        float *row = gx + j * d;
        for (i64 c = 0; c < d; c++)
            row[c] = 0;
        for (i64 p = first[j]; p < first[j + 1]; p++) {
            const float *from = g + node[p] * d;
            float dot = 0, weight = w[edge[p]];
            for (i64 c = 0; c < d; c++) {
                row[c] += weight * from[c];
                dot += x[j * d + c] * from[c];
            }
            gw[edge[p]] = dot;
        }
    }
}

void maximum(i64 n, i64 d, const i64 *restrict first, const int32_t *restrict node,
             const float *restrict x, float *restrict out, i64 *restrict location)
{
    for (i64 i = 0; i < n; i++) {
        float *row = out + i * d;
        i64 *at = location + i * d;
        for (i64 c = 0; c < d; c++) {
            row[c] = -INFINITY;
            at[c] = -1;
        }
        for (i64 p = first[i]; p < first[i + 1]; p++)
            for (i64 c = 0; c < d; c++) {
                float value = x[node[p] * d + c];
                int wins = value > row[c];
                row[c] = wins ? value : row[c];
                at[c] = wins ? p : at[c];
            }
    }
}

void edge_softmax(i64 n, i64 h, const i64 *restrict first, const float *restrict s,
                  float *restrict out)
{
    for (i64 i = 0; i < n; i++)
        for (i64 c = 0; c < h; c++) {
            float top = -INFINITY, total = 0;
            for (i64 p = first[i]; p < first[i + 1]; p++)
                top = s[p * h + c] > top ? s[p * h + c] : top;
            for (i64 p = first[i]; p < first[i + 1]; p++)
                total += out[p * h + c] = expf(s[p * h + c] - top);
            for (i64 p = first[i]; p < first[i + 1]; p++)
                out[p * h + c] /= total;
        }
}

static inline float leaky(float z) { return z > 0 ? z : 0.2f * z; }

// a . x of every node and head
static void parts(i64 n, i64 h, i64 d, const float *restrict a, const float *restrict x,
                  float *restrict part)
{
    for (i64 k = 0; k < n * h; k++) {
        part[k] = 0;
        for (i64 c = 0; c < d; c++)
            part[k] += a[k % h * d + c] * x[k * d + c];
    }
}

// h heads of d features; src and dst [n, h] are scratch, and so are 64 numbers for a row's edges
void gat(i64 n, i64 h, i64 d, const i64 *restrict first, const int32_t *restrict node,
         const float *restrict x, const float *restrict a, float *restrict src,
         float *restrict dst, float *restrict out, float *restrict lse)
{
    parts(n, h, d, a, x, src);
    parts(n, h, d, a + h * d, x, dst);
    for (i64 i = 0; i < n; i++)
        for (i64 k = 0; k < h; k++) {
            float *row = out + (i * h + k) * d, alpha[64], top = -INFINITY, total = 0;
            i64 m = first[i + 1] - first[i];
            for (i64 q = 0; q < m; q++) {
                alpha[q] = leaky(src[node[first[i] + q] * h + k] + dst[i * h + k]);
                top = alpha[q] > top ? alpha[q] : top;
            }
            for (i64 q = 0; q < m; q++)
                total += alpha[q] = expf(alpha[q] - top);
            for (i64 c = 0; c < d; c++)
                row[c] = 0;
            for (i64 q = 0; q < m; q++)
                for (i64 c = 0; c < d; c++)
                    row[c] += alpha[q] * x[(node[first[i] + q] * h + k) * d + c];
            for (i64 c = 0; c < d; c++)
                row[c] /= total;
            lse[i * h + k] = top + logf(total);
        }
}

// By destination, with src, dst and lse of the forward pass; gsrc [n, h] is scratch.
void gat_vjp(i64 n, i64 h, i64 d, const i64 *restrict first, const int32_t *restrict node,
             const float *restrict x, const float *restrict a, const float *restrict src,
             const float *restrict dst, const float *restrict out, const float *restrict lse,
             const float *restrict g, float *restrict gsrc, float *restrict gx_src,
             float *restrict gx_dst, float *restrict ga)
{
    for (i64 c = 0; c < 2 * h * d; c++)
        ga[c] = 0;
    for (i64 k = 0; k < n * h; k++)
        gsrc[k] = 0;
    for (i64 k = 0; k < n * h * d; k++)
        gx_src[k] = 0;
    for (i64 i = 0; i < n; i++)
        for (i64 k = 0; k < h; k++) {
            i64 at = i * h + k;
            float delta = 0, gdst = 0;
            for (i64 c = 0; c < d; c++)
                delta += g[at * d + c] * out[at * d + c];
            for (i64 p = first[i]; p < first[i + 1]; p++) {
                i64 from = node[p] * h + k;
                float z = src[from] + dst[at], alpha = expf(leaky(z) - lse[at]), dot = 0;
                for (i64 c = 0; c < d; c++) {
                    dot += g[at * d + c] * x[from * d + c];
                    gx_src[from * d + c] += alpha * g[at * d + c];
                }
                float gz = alpha * (dot - delta) * (z > 0 ? 1 : 0.2f);
                gsrc[from] += gz;
                gdst += gz;
            }
            for (i64 c = 0; c < d; c++) {
                gx_dst[at * d + c] = gdst * a[(h + k) * d + c];
                ga[(h + k) * d + c] += gdst * x[at * d + c];
            }
        }
    for (i64 k = 0; k < n * h; k++)
        for (i64 c = 0; c < d; c++) {
            gx_src[k * d + c] += gsrc[k] * a[k % h * d + c];
            ga[k % h * d + c] += gsrc[k] * x[k * d + c];
        }
}

// In 3 dimensions
void moments(i64 n, const i64 *restrict first, const int32_t *restrict node,
             const float *restrict x, const float *restrict y, float *restrict out)
{
    for (i64 i = 0; i < n; i++) {
        float *m = out + 11 * i, part = 1.0f / (float)(first[i + 1] - first[i]);
        for (i64 c = 0; c < 11; c++)
            m[c] = 0;
        for (i64 p = first[i]; p < first[i + 1]; p++) {
            float square = 0;
            for (i64 c = 0; c < 3; c++) {
                float r = x[3 * node[p] + c] - y[3 * i + c];
                square += r * r;
                m[2 + c] += part * r;
            }
            m[0] += part * sqrtf(square);
        }
        for (i64 p = first[i]; p < first[i + 1]; p++) {
            float square = 0, r[3], *entry = m + 5;
            for (i64 c = 0; c < 3; c++) {
                r[c] = x[3 * node[p] + c] - y[3 * i + c];
                square += r[c] * r[c];
                r[c] -= m[2 + c];
            }
            float beyond = sqrtf(square) - m[0];
            m[1] += part * beyond * beyond;
            for (i64 c = 0; c < 3; c++)
                for (i64 b = c; b < 3; b++)
                    *entry++ += part * r[c] * r[b];
        }
    }
}

// Sums of every relation side by side
void relational_sum(i64 n, i64 d, i64 relations, const i64 *restrict first,
                    const int32_t *restrict node, const int32_t *restrict type,
                    const float *restrict x, float *restrict out)
{
    for (i64 i = 0; i < n; i++) {
        float *row = out + i * relations * d;
        for (i64 c = 0; c < relations * d; c++)
            row[c] = 0;
        for (i64 p = first[i]; p < first[i + 1]; p++)
            for (i64 c = 0; c < d; c++)
                row[type[p] * d + c] += x[node[p] * d + c];
    }
}

// A matrix an edge
void gno_sum(i64 n, i64 d, const i64 *restrict first, const int32_t *restrict node,
             const float *restrict x, const float *restrict kappa, float *restrict out)
{
    for (i64 i = 0; i < n; i++) {
        float *row = out + i * d;
        for (i64 c = 0; c < d; c++)
            row[c] = 0;
        for (i64 p = first[i]; p < first[i + 1]; p++)
            for (i64 b = 0; b < d; b++)
                for (i64 c = 0; c < d; c++)
                    row[c] += x[node[p] * d + b] * kappa[(p * d + b) * d + c];
    }
}

void edge_update(i64 n, i64 d, const i64 *restrict first, const int32_t *restrict node,
                 const float *restrict e, const float *restrict x, const float *restrict y,
                 float *restrict out)
{
    for (i64 i = 0; i < n; i++)
        for (i64 p = first[i]; p < first[i + 1]; p++)
            for (i64 c = 0; c < d; c++)
                out[p * d + c] = e[p * d + c] + x[node[p] * d + c] + y[i * d + c];
}
