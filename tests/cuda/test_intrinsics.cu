// SPDX-License-Identifier: MIT
// Every warp intrinsic of the SIMT runtime against its definition. Built by nvcc, the same file
// holds a GPU to the same answers, and so the runtime to the GPU.
#include "device/copies.cuh"
#include "device/tensor.cuh"
#include "support.h"

namespace {

constexpr int n_threads = 64, n_results = 20;

__global__ void intrinsics(int* out) {
  const int t = int(threadIdx.x), lane = t % 32;
  const unsigned all = ~0u;
  int* o = out + t * n_results;
  *o++ = __shfl_sync(all, t, 5);
  *o++ = __shfl_sync(all, t, 37);
  *o++ = __shfl_sync(all, t, lane + 1, 8);
  *o++ = __shfl_xor_sync(all, t, 7);
  *o++ = __shfl_xor_sync(all, t, 9, 8);
  *o++ = __shfl_up_sync(all, t, 3);
  *o++ = __shfl_up_sync(all, t, 3, 8);
  *o++ = __shfl_down_sync(all, t, 3);
  *o++ = __shfl_down_sync(all, t, 3, 8);
  *o++ = int(__ballot_sync(all, t % 3 == 0));
  *o++ = int(__match_any_sync(all, t % 5));
  *o++ = __any_sync(all, t == 40);
  *o++ = __all_sync(all, t >= 32);
  const unsigned mine = lane < 12 ? 0xfffu : 0xfffff000u;  // two groups, each under its own mask
  *o++ = __shfl_sync(mine, t, lane < 12 ? 11 : 12);
  *o++ = int(__ballot_sync(mine, lane & 1));
  *o++ = int(__reduce_min_sync(mine, unsigned(100 - t)));
  *o++ = int(__shfl_xor_sync(all, double(t) * 1e10, 1) / 1e10);
  *o++ = __popc(unsigned(t) * 77);
  *o++ = __ffs(t * 8);
  if (t >= 32 + 20) return;  // the last warp goes on with 20 lanes
  *o++ = __popc(__ballot_sync(t < 32 ? all : 0xfffffu, 1));
  __syncthreads();
}

std::vector<int> expected(int t) {
  const int lane = t % 32, warp = t - lane;
  const auto segment = [&](int source, int width) {
    return warp + (lane & -width) + (source & (width - 1));
  };
  unsigned thirds = 0, alike = 0;
  for (int l = 0; l < 32; ++l) {
    thirds |= unsigned((warp + l) % 3 == 0) << l;
    alike |= unsigned((warp + l) % 5 == t % 5) << l;
  }
  return {warp + 5,
          warp + 5,
          segment(lane + 1, 8),
          t ^ 7,
          (lane ^ 9) > (lane | 7) ? t : t ^ 9,
          lane < 3 ? t : t - 3,
          lane % 8 < 3 ? t : t - 3,
          lane > 28 ? t : t + 3,
          lane % 8 > 4 ? t : t + 3,
          int(thirds),
          int(alike),
          warp == 32,
          warp == 32,
          warp + (lane < 12 ? 11 : 12),
          int(lane < 12 ? 0xaaau : 0xaaaaa000u),
          100 - warp - (lane < 12 ? 11 : 31),
          t ^ 1,
          __builtin_popcount(unsigned(t) * 77),
          t ? __builtin_ctz(unsigned(t) * 8) + 1 : 0,
          t >= 52  ? -1
          : t < 32 ? 32
                   : 20};
}

__global__ void numbers_of_blocks(int* out) {
  const int thread = int(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
  const int block = int(blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z));
  const int size = int(blockDim.x * blockDim.y * blockDim.z);
  out[block * size + thread] = thread * 1000 + block + 7 * __shfl_xor_sync(~0u, thread, 1);
}

// c = a b by tensor cores, for a [m, k] and b [k, n]
constexpr int m = 19, n = 21, k = 37;
template <class T>
__global__ void matrix_product(const T* a, const T* b, float* c) {
  gnograd::product_by_mma<T>(
      m, n, k, [&](int i, int l) { return a[i * k + l]; },
      [&](int l, int j) { return b[l * n + j]; },
      [&](int i, int j, float sum) { c[i * n + j] = sum; });
}

template <class T>
void test_matrix_product() {
  std::mt19937 random(2);
  const auto a = randoms<T>(m * k, random), b = randoms<T>(k * n, random);
  Device<T> x(a), y(b);
  Device<float> z(m * n);
  gnograd::launch(matrix_product<T>, dim3(1), dim3(gnograd::block_threads), 0,
                  cudaStream_t(nullptr), x.get(), y.get(), z.get());
  const auto got = z.host();
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double want = 0;  // exact, and so is the product
      for (int l = 0; l < k; ++l) want += to_double(a[i * k + l]) * to_double(b[l * n + j]);
      check(got[i * n + j] == want, std::string(Type<T>::name) + " product on tensor cores");
    }
}

// a [16, 8], b [8, 8], c [16, 8] in the order of rows
__global__ void tensor_core(const float* a, const float* b, float* c) {
  const int g = int(threadIdx.x) / 4, t = int(threadIdx.x) % 4;
  unsigned x[4], y[2];
  float sum[4];
  for (int k = 0; k < 4; ++k) {
    x[k] = to_tf32(a[(g + k % 2 * 8) * 8 + t + k / 2 * 4]);
    sum[k] = c[(g + k / 2 * 8) * 8 + 2 * t + k % 2];
  }
  for (int k = 0; k < 2; ++k) y[k] = to_tf32(b[(t + 4 * k) * 8 + g]);
  mma_m16n8k8(sum, x, y);
  for (int k = 0; k < 4; ++k) c[(g + k / 2 * 8) * 8 + 2 * t + k % 2] = sum[k];
}

void test_tensor_core() {
  // numbers of 11 bits, so that the product is exact; a last bit more is rounded away
  std::vector<float> a(16 * 8), b(8 * 8), c(16 * 8), want;
  for (int i = 0; i < 128; ++i) a[i] = float((i * 37) % 101 - 50) / 4, c[i] = float(i % 7) / 8;
  for (int i = 0; i < 64; ++i) b[i] = float((i * 53) % 89 - 44) / 8;
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 8; ++j) {
      float sum = c[i * 8 + j];
      for (int k = 0; k < 8; ++k) sum += a[i * 8 + k] * b[k * 8 + j];
      want.push_back(sum);
    }
  for (int i = 0; i < 128; ++i) a[i] *= 1 + (i % 2 ? 0x1p-13f : -0x1p-13f);  // up and down
  Device<float> da(a), db(b), dc(c);
  gnograd::launch(tensor_core, dim3(1), dim3(32), 0, cudaStream_t(nullptr), da.get(), db.get(),
                  dc.get());
  check(dc.host() == want, "a product on tensor cores");
}

// A 16x16 matrix of 16-bit numbers as ldmatrix deals it out, plain and transposed, after copies of
// all sizes, in two groups, have brought it to shared memory. Its row 3 is not there.
__global__ void matrices(const uint16_t* a, unsigned* out) {
  constexpr int pitch = 24;
  SharedMemory shared;
  uint16_t* s = shared.take<uint16_t>(16 * pitch);
  const int lane = int(threadIdx.x), half = lane / 16, row = lane % 16;
  if (row % 3 == 0) copy_async(s + row * pitch + half * 8, a + row * 16 + half * 8, row != 3);
  commit_copies();
  for (int part = 0; row % 3 == 1 && part < 8; part += 4)
    copy_async<8>(s + row * pitch + half * 8 + part, a + row * 16 + half * 8 + part);
  for (int part = 0; row % 3 == 2 && part < 8; part += 2)
    copy_async<4>(s + row * pitch + half * 8 + part, a + row * 16 + half * 8 + part);
  commit_copies();
  await_copies<1>();
  __syncwarp();
  out[lane] = s[lane % 6 * 3 * pitch + lane / 6];  // numbers of the first group
  await_copies();
  __syncwarp();
  unsigned d[4];
  load_matrices(d, s + row * pitch + half * 8);
  for (int m = 0; m < 4; ++m) out[32 + 4 * lane + m] = d[m];
  load_matrices_transposed(d, s + row * pitch + half * 8);
  for (int m = 0; m < 4; ++m) out[160 + 4 * lane + m] = d[m];
}

void test_matrices() {
  std::vector<uint16_t> a(256);
  for (int i = 0; i < 256; ++i) a[i] = uint16_t(i * 251);
  Device<uint16_t> x(a);
  Device<unsigned> y(288);
  gnograd::launch(matrices, dim3(1), dim3(32), shared_bytes<uint16_t>(16 * 24), cudaStream_t(nullptr),
                  x.get(), y.get());
  const auto got = y.host();
  std::fill_n(a.begin() + 48, 16, uint16_t(0));
  const auto of = [&](int i, int j) { return unsigned(a[i * 16 + j]); };
  for (int lane = 0; lane < 32; ++lane) {
    check(got[lane] == of(lane % 6 * 3, lane / 6), "copies of the first group");
    for (int m = 0; m < 4; ++m) {
      const int i = lane / 4, j = lane % 4 * 2, r = m % 2 * 8, c = m / 2 * 8;
      check(got[32 + 4 * lane + m] == (of(r + i, c + j) | of(r + i, c + j + 1) << 16),
            "matrices from shared memory");
      check(got[160 + 4 * lane + m] == (of(r + j, c + i) | of(r + j + 1, c + i) << 16),
            "transposed matrices from shared memory");
    }
  }
}

}  // namespace

int main() {
  require_device();
  test_matrices();
  test_matrix_product<__half>();
  test_matrix_product<__nv_bfloat16>();
  Device<int> results(n_threads * n_results);
  gnograd::launch(intrinsics, dim3(1), dim3(n_threads), 0, cudaStream_t(nullptr), results.get());
  const auto got = results.host();
  for (int t = 0; t < n_threads; ++t) {
    const auto want = expected(t);
    for (int k = 0; k < n_results; ++k)
      check(got[t * n_results + k] == want[k],
            "result " + std::to_string(k) + " of thread " + std::to_string(t));
  }
  Device<int> blocks(12 * 64);
  gnograd::launch(numbers_of_blocks, dim3(2, 3, 2), dim3(4, 8, 2), 0, cudaStream_t(nullptr),
                  blocks.get());
  const auto numbers = blocks.host();
  for (int i = 0; i < 12 * 64; ++i)
    check(numbers[i] == i % 64 * 1000 + i / 64 + 7 * (i % 64 ^ 1), "three-dimensional grid");
  test_tensor_core();
  return report();
}
