#include "library.h"

#include <dlfcn.h>

#include <barrier>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/clock.h"

namespace {

thread_local int device = 0;

}  // namespace

// The CUDA runtime that the library finds.
#define FAKE_CUDA extern "C" __attribute__((visibility("default")))

FAKE_CUDA int cudaGetDevice(int* out) {
  *out = device;
  return 0;
}
FAKE_CUDA int cudaSetDevice(int chosen) {
  device = chosen;
  return 0;
}
FAKE_CUDA int cudaDeviceSynchronize() { return 801; }  // not supported: for aborts that wait for the device
FAKE_CUDA int cudaMalloc(void** out, size_t size) {
  *out = fake::on_device(malloc(size));
  return 0;
}
FAKE_CUDA int cudaFree(void* pointer) {
  free(fake::bytes(pointer));
  return 0;
}
FAKE_CUDA int cudaStreamGetCaptureInfo(void* stream, int* status, unsigned long long* id, void**, const void**,
                                       const void**, size_t*) {
  *id = fake::capture_of(stream);
  *status = *id != 0 ? 1 : 0;
  return 0;
}
FAKE_CUDA int cuemu_launch(void* stream, const char* what, int (*run)(void*), void (*destroy)(void*), void* arg) {
  return fake::launch(stream, what, run, destroy, arg);
}
FAKE_CUDA void* cuemu_bytes(const void* pointer) { return fake::bytes(pointer); }
FAKE_CUDA int cuemu_device_of(const void* pointer) { return pointer == fake::bytes(pointer) ? -1 : 0; }

namespace nccl_test {

const pycomms::NcclApi& nccl() {
  static const pycomms::Engine* const engine = [] {  // it lives until the process ends
    auto loaded = pycomms::load_engine(NCCL_LIBRARY);
    if (!loaded.is_ok()) throw std::runtime_error(loaded.status().message());
    return loaded.value();
  }();
  return engine->nccl;
}

const More& more() {
  static const More all = [] {
    More found;
    void* const library = dlopen(NCCL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
#define NCCL_TEST_FIND(name, result, parameters)                              \
  found.name = reinterpret_cast<result(*) parameters>(dlsym(library, #name)); \
  if (found.name == nullptr) throw std::runtime_error("no " #name);
    NCCL_TEST_MORE_FUNCTIONS(NCCL_TEST_FIND)
#undef NCCL_TEST_FIND
    return found;
  }();
  return all;
}

std::string run_ranks(int nranks, const std::function<void(int)>& body) {
  std::mutex mutex;
  std::string errors;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < nranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (const std::exception& error) {
        const std::lock_guard lock(mutex);
        errors += "rank " + std::to_string(rank) + ": " + error.what() + "\n";
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

std::string run_world(int nranks, bool blocking, const std::function<void(int, CommHandle&)>& body) {
  const UniqueId id = unique_id();
  std::barrier all_ready(nranks);  // or a body that aborts would surprise whoever is still making his
  return run_ranks(nranks, [&](int rank) {
    Config config = nonblocking();
    config.blocking = blocking ? 1 : 0;
    CommHandle comm = nullptr;
    const Result begun = nccl().comm_init_rank_config(&comm, nranks, id, rank, &config);
    expect(begun == (blocking ? nccl_abi::kSuccess : nccl_abi::kInProgress), "init");
    expect_success(settle(comm), "init ends");
    all_ready.arrive_and_wait();
    body(rank, comm);
    if (comm != nullptr) expect_success(nccl().comm_destroy(comm), "destroy");
  });
}

UniqueId unique_id() {
  UniqueId id;
  expect_success(nccl().get_unique_id(&id), "unique id");
  return id;
}

Config nonblocking() {
  Config config;
  config.blocking = 0;
  return config;
}

Result async_error(CommHandle comm) {
  Result error = nccl_abi::kInternalError;
  expect_success(nccl().comm_get_async_error(comm, &error), "async error");
  return error;
}

Result settle(CommHandle comm) {
  const auto deadline = pycomms::Deadline::after(20 * pycomms::kSecond);
  for (;;) {
    const Result state = async_error(comm);
    if (state != nccl_abi::kInProgress) return state;
    expect(!deadline.passed(), "a communicator stays in progress");
    std::this_thread::yield();
  }
}

void expect(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

void expect_success(Result result, const std::string& what) {
  if (result == nccl_abi::kSuccess) return;
  throw std::runtime_error(what + ": result " + std::to_string(result) + ": " + nccl().get_last_error(nullptr));
}

size_t live_communicators() {
  ncclEmulatorLive_t live;
  more().ncclEmulatorCountLive(&live);
  return live.communicators;
}

Result all_reduce(float* data, size_t count, CommHandle comm, fake::Stream& stream) {
  return nccl().all_reduce(fake::on_device(data), fake::on_device(data), count, nccl_abi::kFloat32, nccl_abi::kSum,
                           comm, &stream);
}

}  // namespace nccl_test
