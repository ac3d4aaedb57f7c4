// N ranks as threads of one process, each with its own communicator: how the engine's tests run. A race detector sees all.
// Must not know: what is tested.
#pragma once

#include <algorithm>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "hostccl/hostccl.h"

namespace hostccl_test {

// Calls body(rank, communicator) on a thread for each rank; returns what went wrong, one line a rank that failed.
inline std::string run_world(int nranks, const std::function<void(int, nccl_abi::CommHandle)>& body) {
  using namespace nccl_abi;
  UniqueId id;
  if (ncclGetUniqueId(&id) != kSuccess) return std::string("no unique id: ") + ncclGetLastError(nullptr);
  std::mutex mutex;
  std::string errors;
  auto report = [&](int rank, const std::string& text) {
    std::lock_guard lock(mutex);
    errors += "rank " + std::to_string(rank) + ": " + text + "\n";
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < nranks; ++rank) {
    threads.emplace_back([&, rank] {
      CommHandle comm = nullptr;
      hostccl::hostcclSetInitTimeout(20'000'000'000);
      if (ncclCommInitRankConfig(&comm, nranks, id, rank, nullptr) != kSuccess) {
        return report(rank, std::string("init: ") + ncclGetLastError(comm));
      }
      hostccl::hostcclCommSetTimeout(comm, 20'000'000'000);
      try {
        body(rank, comm);
      } catch (const std::exception& error) {
        report(rank, error.what());
      }
      if (ncclCommDestroy(comm) != kSuccess) report(rank, std::string("destroy: ") + ncclGetLastError(nullptr));
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

// const char*: millions of elements are checked, and only the one that is wrong may cost a string.
inline void expect(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
}
inline void expect(bool condition, const std::string& what) { expect(condition, what.c_str()); }

inline void expect_success(nccl_abi::Result result, const std::string& what) {
  if (result == nccl_abi::kSuccess) return;
  throw std::runtime_error(what + ": result " + std::to_string(result) + ": " + nccl_abi::ncclGetLastError(nullptr));
}

inline hostccl::Failure failure_of(nccl_abi::CommHandle comm) {
  hostccl::Failure failure{};
  hostcclCommGetFailure(comm, &failure);
  return failure;
}

inline bool names(const hostccl::Failure& failure, int rank) {
  return std::find(failure.ranks, failure.ranks + failure.nranks, rank) != failure.ranks + failure.nranks;
}

}  // namespace hostccl_test
