// SPDX-License-Identifier: MIT
// Calls of the library to the CUDA runtime, and how it bears refusals; the SIMT runtime models what
// a GPU would do.
#include "../support.h"
#include "device/platform.cuh"

namespace {

using gnograd::launch, gnograd::launch_threads, gnograd::plain_shared, gnograd::most_shared;

__global__ void count(int* n) {
  if (threadIdx.x == 0) ++*n;
}
__global__ void count_with_room(int* n) {
  if (threadIdx.x == 0) ++*n;
}

// Status of a face that does nothing wrong.
int faultless() {
  static DeviceGraph graph = to_device(small_square());
  static Device<float> x(graph.view.n_src * 3), out(graph.view.n_dst * 3);
  const size_t bytes =
      gnograd_cuda_agg_weighted_forward_workspace_bytes_f32(&graph.view, 3, 0);
  static Device<char> workspace(bytes);
  return gnograd_cuda_agg_weighted_forward_f32(&graph.view, 3, 0, x.get(), nullptr, out.get(),
                                               nullptr, nullptr, workspace.get(), bytes, nullptr);
}

void errors_end_where_they_are_reported() {
  void* memory;
  check(gnograd_cuda_allocate(size_t(1) << 60, &memory, nullptr) == cudaErrorMemoryAllocation &&
            memory == nullptr,
        "more memory than there is");
  check(faultless() == 0, "after too little memory");
  check(gnograd_cuda_use_device(7) == cudaErrorInvalidDevice, "no such device");
  check(gnograd_cuda_hold(size_t(1) << 60, "", &memory) == cudaErrorMemoryAllocation, "hold");
  check(gnograd_cuda_release(&memory) == cudaErrorInvalidValue, "release of no memory");
  check(cudaPeekAtLastError() == cudaSuccess, "nothing is left of them");
  cudaSetDevice(7);
  check(faultless() == 0, "after an error of somebody else");
}

void shared_memory() {
  Device<int> n(std::vector<int>{0});
  const auto run = [&](size_t bytes) {
    launch(count, dim3(1), dim3(32), bytes, cudaStream_t(nullptr), n.get());
    return cudaGetLastError();
  };
  start(count, dim3(1), dim3(32), plain_shared + 1, cudaStream_t(nullptr), n.get());
  check(cudaGetLastError() == cudaErrorInvalidValue, "a kernel must ask for more than 48 KiB");
  // a smaller launch takes nothing away from a larger one
  check(run(60 << 10) == cudaSuccess && run(most_shared) == cudaSuccess, "it asks for all");
  start(count, dim3(1), dim3(32), most_shared, cudaStream_t(nullptr), n.get());
  check(cudaGetLastError() == cudaSuccess, "and keeps it");
  check(run(most_shared + 1) == cudaErrorInvalidValue, "more than the device has");
  check(n.host()[0] == 3, "three of them ran");
  // on another device it asks again
  MUST(gnograd_cuda_use_device(1));
  check(run(60 << 10) == cudaSuccess, "on another device");
  MUST(gnograd_cuda_use_device(0));
}

void nothing_follows_a_failure() {
  Device<int> n(std::vector<int>{0});
  launch(count_with_room, dim3(1), dim3(2048), 0, cudaStream_t(nullptr), n.get());
  launch(count_with_room, dim3(1), dim3(32), 0, cudaStream_t(nullptr), n.get());
  check(n.host()[0] == 0 && cudaGetLastError() == cudaErrorInvalidConfiguration,
        "the first failure is the last launch");
}

void large_grids() {
  Device<int> n(std::vector<int>{0});
  // 2^32 + 1 blocks are not one block
  launch_threads(((int64_t(1) << 32) + 1) * gnograd::block_threads, nullptr, count, n.get());
  check(n.host()[0] == 0 && cudaGetLastError() == cudaErrorInvalidConfiguration,
        "more blocks than a grid has");
}

void memory_of_no_bytes() {
  void* memory = &memory;
  MUST(gnograd_cuda_allocate(0, &memory, nullptr));
  check(memory == nullptr, "no bytes are no memory");
  MUST(gnograd_cuda_free(memory, nullptr));
  MUST(gnograd_cuda_copy(nullptr, nullptr, 0, nullptr));
  MUST(gnograd_cuda_hold(0, nullptr, &memory));
  MUST(gnograd_cuda_release(memory));
}

void device_without_pools() {
  setenv("SIMT_POOLS", "0", 1);
  MUST(gnograd_cuda_use_device(1));
  void* memory;
  MUST(gnograd_cuda_allocate(100, &memory, nullptr));
  MUST(gnograd_cuda_free(memory, nullptr));
  MUST(gnograd_cuda_use_device(0));
  unsetenv("SIMT_POOLS");
}

void streams_of_another_device() {
  cudaStream_t here, there;
  cudaStreamCreate(&here);
  cudaSetDevice(1);
  cudaStreamCreate(&there);
  cudaSetDevice(0);
  check(gnograd_cuda_wait(here, there, 1) == 0 && gnograd_cuda_wait(there, here, 0) == 0 &&
            gnograd_cuda_wait(nullptr, there, 1) == 0,
        "a stream waits for one of another device");
  int device;
  MUST(gnograd_cuda_current_device(&device));
  check(device == 0, "the device is as before");
  cudaStreamDestroy(here);
  cudaStreamDestroy(there);
}

void while_a_stream_is_captured() {
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  const auto broken = [&](auto calls) {
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    calls();
    cudaGraph_t graph;
    const bool whole = cudaStreamEndCapture(stream, &graph) == cudaSuccess;
    (void)cudaGetLastError();
    return !whole;
  };
  check(broken([] { gnograd_cuda_synchronize(nullptr); }), "waiting ends a capture");
  std::vector<int> host(10);
  std::iota(host.begin(), host.end(), 0);
  void* memory = nullptr;
  check(!broken([&] {
    MUST(gnograd_cuda_hold(host.size() * sizeof(int), host.data(), &memory));
    void* scratch;
    MUST(gnograd_cuda_allocate(100, &scratch, stream));
    MUST(gnograd_cuda_free(scratch, stream));
  }),
        "memory may be taken");
  std::vector<int> copy(host.size());
  MUST(gnograd_cuda_copy(copy.data(), memory, copy.size() * sizeof(int), nullptr));
  check(copy == host, "and has what it should");
  check(!broken([&] { MUST(gnograd_cuda_release(memory)); }), "and given back");
  cudaStreamDestroy(stream);
}

}  // namespace

int main() {
  device_without_pools();
  errors_end_where_they_are_reported();
  shared_memory();
  nothing_follows_a_failure();
  large_grids();
  memory_of_no_bytes();
  streams_of_another_device();
  while_a_stream_is_captured();
  return report();
}
