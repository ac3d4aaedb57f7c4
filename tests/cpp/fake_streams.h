// Streams of a made-up device, for what runs on streams that are not ours: a thread each, events, holding, graphs, and
// device pointers that crash whoever dereferences them outside of a stream's work.
// Must not know: hostccl's insides.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "hostccl/hostccl.h"

namespace fake {

inline constexpr std::chrono::seconds kPatience{30};

// Set once; waited for with a deadline.
class Event {
 public:
  void set() {
    std::lock_guard lock(mutex_);
    is_set_ = true;
    changed_.notify_all();
  }
  bool wait(std::chrono::milliseconds limit = kPatience) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [this] { return is_set_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_set_ = false;
};

// Work that somebody has launched; destroyed once.
class Work {
 public:
  Work(int (*run)(void*), void (*destroy)(void*), void* arg) : run_(run), destroy_(destroy), arg_(arg) {}
  ~Work() { destroy_(arg_); }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  int run() { return run_(arg_); }

 private:
  int (*run_)(void*);
  void (*destroy_)(void*);
  void* arg_;
};

class Stream;

// What has been captured, in order; launched on one stream at a time.
struct Graph {
  uint64_t id = 0;
  std::vector<std::pair<Stream*, std::shared_ptr<Work>>> work;
  void launch();
};

class Stream {
 public:
  Stream() : thread_([this] { main(); }) {}
  ~Stream() {
    push([this] { stopping_ = true; });
    thread_.join();
  }

  void push(std::function<void()> item) {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(item));
    changed_.notify_all();
  }
  void launch(std::shared_ptr<Work> work) {
    push([this, work = std::move(work)] { last_result_ = work->run(); });
  }
  // The stream stops at this point until the event is set.
  std::shared_ptr<Event> hold() {
    auto event = std::make_shared<Event>();
    push([event] { event->wait(); });
    return event;
  }
  std::shared_ptr<Event> record() {
    auto event = std::make_shared<Event>();
    push([event] { event->set(); });
    return event;
  }
  void synchronize() {
    if (!record()->wait()) throw std::runtime_error("a stream did not become idle in time");
  }
  // What has not begun never will.
  void drop_queued() {
    std::deque<std::function<void()>> dropped;
    std::lock_guard lock(mutex_);
    dropped.swap(queue_);
  }
  void refuse_next() { refuses_ = true; }
  bool refuses() { return std::exchange(refuses_, false); }
  void begin_capture(Graph* graph) { graph_ = graph; }
  void end_capture() { graph_ = nullptr; }
  Graph* graph() const { return graph_; }
  int last_result() {  // of the latest work
    synchronize();
    return last_result_;
  }

 private:
  void main() {
    while (!stopping_) {
      std::function<void()> item;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return !queue_.empty(); });
        item = std::move(queue_.front());
        queue_.pop_front();
      }
      item();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;  // GUARDED_BY(mutex_)
  bool stopping_ = false;                    // of the stream's thread
  int last_result_ = 0;                      // of the stream's thread; read when it is idle
  bool refuses_ = false;                     // of the issuer's thread, as is the next
  Graph* graph_ = nullptr;
  std::thread thread_;  // last: it uses all the others
};

inline void Graph::launch() {
  for (const auto& [stream, captured] : work) stream->launch(captured);
}

// What nullptr means on this thread.
inline Stream*& default_stream() {
  thread_local Stream* stream = nullptr;
  return stream;
}

inline Stream* stream_of(void* handle) { return handle != nullptr ? static_cast<Stream*>(handle) : default_stream(); }

inline int launch(void* handle, const char*, int (*run)(void*), void (*destroy)(void*), void* arg) {
  Stream* stream = stream_of(handle);
  if (stream == nullptr || stream->refuses()) return 1;
  auto work = std::make_shared<Work>(run, destroy, arg);
  if (Graph* graph = stream->graph()) {
    graph->work.emplace_back(stream, std::move(work));
  } else {
    stream->launch(std::move(work));
  }
  return 0;
}

inline uint64_t capture_of(void* handle) {
  const Stream* stream = stream_of(handle);
  return stream != nullptr && stream->graph() != nullptr ? stream->graph()->id : 0;
}

// No address of a program has this bit, so that to dereference one is a crash.
inline constexpr uintptr_t kDeviceBit = uintptr_t{1} << 60;

inline void* bytes(const void* pointer) {
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(pointer) & ~kDeviceBit);
}

template <typename T>
T* on_device(T* host) {
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(host) | kDeviceBit);
}

inline void use_fake_streams() {
  const hostccl::ExternalStreams streams{launch, capture_of, bytes};
  if (hostccl::hostcclSetExternalStreams(&streams) != nccl_abi::kSuccess) throw std::runtime_error("not accepted");
}

}  // namespace fake
