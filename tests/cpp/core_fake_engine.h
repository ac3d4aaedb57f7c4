// An engine whose every answer a test decides, and a runtime whose streams run when the test says so.
// One engine per process: NCCL's functions carry no context. reset() before each test.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "nccl2/core/launch.h"

namespace fake {

using namespace pycomms;

struct State {
  std::atomic<int> polls_in_progress{0};  // comm_get_async_error answers kInProgress that often; negative: for ever
  std::atomic<EngineResult> init{nccl_abi::kInProgress};
  std::atomic<int> count{2};
  std::atomic<int> user_rank{0};
  std::atomic<EngineResult> split{nccl_abi::kSuccess};
  std::atomic<int> splits{0};  // begun
  std::atomic<bool> abort_blocks{false};
  std::atomic<EngineResult> suspend{nccl_abi::kSuccess};
  std::atomic<int> suspended{0}, resumed{0};
  std::atomic<int> shrink_flags{-1};  // of the last call
  hostccl::Failure communicator_failure{};
  hostccl::Failure call_failure{};
  std::atomic<int64_t> timeout{0};
  hostccl::Failure reported{};  // by comm_fail
  std::atomic<int> cancelled{0}, finalized{0}, destroyed{0}, aborted{0};

  std::mutex mutex;
  std::condition_variable changed;
  bool released = false;                                   // guarded by mutex: a blocked call returns
  std::vector<std::pair<StreamCallback, void*>> requests;  // guarded by mutex: point to point, pending

  void release() {
    {
      const std::lock_guard lock(mutex);
      released = true;
    }
    changed.notify_all();
  }
  void block() {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, std::chrono::seconds(20), [this] { return released; });
  }
  // The other side has come, or never will: ends pending requests, the oldest first, at most `most` of them.
  void end_requests(EngineResult result, size_t most = SIZE_MAX) {
    std::vector<std::pair<StreamCallback, void*>> ended;
    {
      const std::lock_guard lock(mutex);
      const auto end = requests.begin() + static_cast<std::ptrdiff_t>(std::min(most, requests.size()));
      ended.assign(requests.begin(), end);
      requests.erase(requests.begin(), end);
    }
    for (const auto& [callback, arg] : ended) callback(arg, result);
  }
};

inline State* state = nullptr;

inline hostccl::Failure failure(hostccl::FailureKind kind, const char* text, std::vector<int> ranks = {}) {
  hostccl::Failure result{};
  result.kind = kind;
  result.sequence = 7;
  result.nranks = static_cast<int>(ranks.size());
  std::copy(ranks.begin(), ranks.end(), result.ranks);
  std::snprintf(result.op, sizeof result.op, "all_reduce");
  std::snprintf(result.text, sizeof result.text, "%s", text);
  return result;
}

inline CommHandle handle() {
  static int object;
  return reinterpret_cast<CommHandle>(&object);
}

// A fresh engine; the functions that no test of core reaches stay null. is_host: it has streams of its own.
inline const Engine& reset(bool is_host = true) {
  static Engine engine;
  delete state;
  state = new State;
  NcclApi& nccl = engine.nccl;
  nccl.get_unique_id = [](UniqueId* id) {
    *id = UniqueId{{'i', 'd'}};
    return nccl_abi::kSuccess;
  };
  nccl.comm_init_rank_config = [](CommHandle* comm, int, UniqueId, int, nccl_abi::Config*) -> EngineResult {
    *comm = handle();
    return state->init;
  };
  nccl.comm_get_async_error = [](CommHandle, EngineResult* result) {
    if (state->communicator_failure.kind != hostccl::FailureKind::kNone) {
      *result = nccl_abi::kSystemError;
    } else if (state->polls_in_progress != 0) {
      if (state->polls_in_progress > 0) --state->polls_in_progress;
      *result = nccl_abi::kInProgress;
    } else {
      *result = nccl_abi::kSuccess;
    }
    return nccl_abi::kSuccess;
  };
  nccl.comm_count = [](CommHandle, int* count) {
    *count = state->count;
    return nccl_abi::kSuccess;
  };
  nccl.comm_user_rank = [](CommHandle, int* rank) {
    *rank = state->user_rank;
    return nccl_abi::kSuccess;
  };
  nccl.comm_split = [](CommHandle, int, int, CommHandle* child, nccl_abi::Config*) -> EngineResult {
    *child = handle();
    ++state->splits;
    return state->split;
  };
  nccl.comm_shrink = [](CommHandle, int*, int, CommHandle* child, nccl_abi::Config*, int flags) -> EngineResult {
    *child = handle();
    state->shrink_flags = flags;
    return state->split;
  };
  nccl.comm_suspend = [](CommHandle, int) -> EngineResult {
    ++state->suspended;
    return state->suspend;
  };
  nccl.comm_resume = [](CommHandle) {
    ++state->resumed;
    return nccl_abi::kSuccess;
  };
  nccl.comm_finalize = [](CommHandle) {
    ++state->finalized;
    return nccl_abi::kSuccess;
  };
  nccl.comm_destroy = [](CommHandle) {
    ++state->destroyed;
    state->end_requests(nccl_abi::kSystemError);
    return nccl_abi::kSuccess;
  };
  nccl.comm_abort = [](CommHandle) {
    const Deadline longest = Deadline::after(20 * kSecond);
    while (state->abort_blocks && !longest.passed()) std::this_thread::yield();
    ++state->aborted;
    state->end_requests(nccl_abi::kSystemError);
    return nccl_abi::kSuccess;
  };
  nccl.get_error_string = [](EngineResult) { return "fake error"; };
  nccl.get_last_error = [](CommHandle) { return "fake detail"; };

  HostcclApi& host = engine.host;
  host.stream_create = nullptr;
  if (is_host) host.stream_create = [](StreamHandle*, const char*) -> EngineResult { return nccl_abi::kSuccess; };
  host.comm_get_failure = [](CommHandle, hostccl::Failure* failure) {
    *failure = state->communicator_failure;
    return nccl_abi::kSuccess;
  };
  host.last_failure = [](hostccl::Failure* failure) {
    *failure = state->call_failure;
    return nccl_abi::kSuccess;
  };
  host.comm_set_timeout = [](CommHandle, int64_t ns) {
    state->timeout = ns;
    return nccl_abi::kSuccess;
  };
  host.comm_fail = [](CommHandle, const hostccl::Failure* failure) {
    state->reported = *failure;
    return nccl_abi::kSuccess;
  };
  host.comm_need_all = [](CommHandle, const char*) -> EngineResult {
    const bool is_well = state->communicator_failure.kind == hostccl::FailureKind::kNone;
    return is_well ? nccl_abi::kSuccess : nccl_abi::kRemoteError;
  };
  host.comm_cancel = [](CommHandle, const char*) {
    ++state->cancelled;
    state->release();
    return nccl_abi::kSuccess;
  };
  return engine;
}

// One stream; its notifications are kept until the test, or destroy_stream, runs them.
class Runtime final : public DeviceRuntime {
 public:
  Result<StreamHandle> create_stream(const char*) override { return StreamHandle{this}; }
  void destroy_stream(StreamHandle) override { run(nccl_abi::kSystemError); }
  EngineResult notify(StreamHandle, StreamCallback callback, void* arg, uint64_t* position) override {
    const std::lock_guard lock(mutex_);
    waiting_.emplace_back(callback, arg);
    *position = ++notified_;
    return nccl_abi::kSuccess;
  }
  bool help(StreamHandle, uint64_t) override {
    if (!helps) return false;
    return run(nccl_abi::kSuccess);
  }
  bool can_run_inline() const override { return true; }

  // Ends everything that is on the stream with `result`; false when it is empty.
  bool run(EngineResult result) {
    std::vector<std::pair<StreamCallback, void*>> ended;
    {
      const std::lock_guard lock(mutex_);
      ended.swap(waiting_);
    }
    for (const auto& [callback, arg] : ended) callback(arg, result);
    return !ended.empty();
  }

  std::atomic<bool> helps{false};

 private:
  std::mutex mutex_;
  uint64_t notified_ = 0;
  std::vector<std::pair<StreamCallback, void*>> waiting_;
};

class Meeting final : public Rendezvous {
 public:
  Error make(const Engine& engine, int, bool, UniqueId* id, Deadline) override {
    static_cast<void>(engine.nccl.get_unique_id(id));
    return {};
  }
  Error fetch(int, int, UniqueId* id, Deadline) override {
    *id = UniqueId{{'i', 'd'}};
    return {};
  }
};

// A request that is pending until the test, or the end of the communicator, ends it.
inline EngineResult pend(const Engine&, CommHandle, StreamCallback callback, void* arg) {
  const std::lock_guard lock(state->mutex);
  state->requests.emplace_back(callback, arg);
  return nccl_abi::kSuccess;
}
inline EngineResult succeed(const Engine&, CommHandle, StreamHandle) { return nccl_abi::kSuccess; }
inline EngineResult fail(const Engine&, CommHandle, StreamHandle) { return nccl_abi::kSystemError; }

}  // namespace fake
