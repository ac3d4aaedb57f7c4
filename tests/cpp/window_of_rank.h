// A window of a rank that is a thread of this process, and what the last call of a thread met.
// Must not know: what is tested.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "hostccl/hostccl_windows.h"
#include "hostccl_world.h"

namespace hostccl_test {

using namespace hostccl;

inline constexpr int64_t kPatience = 20'000'000'000;

// What ranks of one host can map, and what they have to be served.
enum class Memory { kShared, kPrivate };

// A window over memory of its own, closed by all together.
struct Mine {
  const Memory kind;
  void* memory = nullptr;
  size_t bytes;
  WindowHandle handle = nullptr;

  Mine(nccl_abi::CommHandle comm, size_t nbytes, WindowOptions options = {}, Memory where = Memory::kShared)
      : kind(where), bytes(nbytes) {
    if (kind == Memory::kPrivate) {
      memory = std::calloc(std::max<size_t>(bytes, 1), 1);
    } else {
      expect_success(nccl_abi::ncclMemAlloc(&memory, std::max<size_t>(bytes, 1)), "memory");
    }
    expect_success(hostcclWindowCreate(comm, memory, bytes, &options, kPatience, &handle), "create");
  }
  ~Mine() {
    hostcclWindowClose(handle, 1, kPatience);
    hostcclWindowFree(handle);
    if (kind == Memory::kPrivate) {
      std::free(memory);
    } else {
      nccl_abi::ncclMemFree(memory);
    }
  }
  template <typename T>
  T* data() {
    return static_cast<T*>(memory);
  }
  Result put(int peer, uint64_t offset, const void* source, size_t n, const WindowSignal* signal = nullptr) {
    const WindowPiece piece{offset, n};
    return hostcclWindowPut(handle, peer, &piece, 1, source, signal, kPatience);
  }
  Result get(int peer, uint64_t offset, void* destination, size_t n) {
    const WindowPiece piece{offset, n};
    return hostcclWindowGet(handle, peer, &piece, 1, destination, kPatience);
  }
  template <typename T>
  T update(int peer, uint64_t index, DataType type, WindowOp op, T operand) {
    const WindowPiece piece{index * sizeof(T), sizeof(T)};
    T old{};
    expect_success(hostcclWindowUpdate(handle, peer, &piece, 1, type, op, &operand, &old, kPatience), "update");
    return old;
  }
  Result wait(const std::vector<int>& peers, bool all_of, int slot, int64_t count, int64_t ns = kPatience,
              size_t* which = nullptr) {
    return hostcclWindowWaitSignal(handle, peers.data(), peers.size(), all_of, slot, count, ns, which);
  }
};

inline hostccl::Failure last() {
  hostccl::Failure failure{};
  hostcclLastFailure(&failure);
  return failure;
}

inline bool last_says(const std::string& what) { return std::string(last().text).find(what) != std::string::npos; }

inline WindowSignal one(int slot) { return {slot, SignalChange::kAdd, 1}; }

}  // namespace hostccl_test
