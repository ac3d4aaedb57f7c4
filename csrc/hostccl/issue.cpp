#include "hostccl/issue.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace hostccl {
namespace {

// A communicator that cannot be torn down meanwhile.
class Held {
 public:
  explicit Held(Communicator& comm) : comm_(&comm), inside_(comm.gate().try_enter()) {}
  Held(Held&& other) noexcept : comm_(other.comm_), inside_(std::exchange(other.inside_, false)) {}
  ~Held() {
    if (inside_) comm_->gate().leave();
  }
  explicit operator bool() const { return inside_; }
  Communicator& comm() const { return *comm_; }

 private:
  Communicator* comm_;
  bool inside_;
};

class CollectiveTask final : public Stream::Task {
 public:
  CollectiveTask(Held held, const Collective& op)
      : held_(std::move(held)), queued_(op, held_.comm().nranks()), timeout_ns_(held_.comm().timeout_ns()) {}
  Result run(bool interruptible) override { return held_.comm().run(queued_.op(), timeout_ns_, interruptible); }
  bool is_small() const override {
    constexpr size_t kSmall = 64 * 1024;  // takes less time than waking a thread
    const Collective& op = queued_.op();
    size_t bytes = 0;
    for (int rank = 0; rank < held_.comm().nranks(); ++rank) {
      bytes = std::max({bytes, op.send.elements(rank), op.recv.elements(rank)});
    }
    return bytes * op.element_bytes() <= kSmall;
  }

 private:
  Held held_;
  QueuedCollective queued_;
  const int64_t timeout_ns_;
};

// Requests that are posted together and end together, with collectives in between.
class GroupTask final : public Stream::Task {
 public:
  void add(Held held, const P2pRequest& request) { requests_.push_back({std::move(held), request}); }
  void add(std::unique_ptr<CollectiveTask> task) { collectives_.push_back(std::move(task)); }

  Result run(bool interruptible) override {
    Result first = nccl_abi::kSuccess;
    auto keep = [&first](Result result) {
      if (first == nccl_abi::kSuccess) first = result;
    };
    std::vector<Ending> endings(requests_.size());
    for (size_t i = 0; i < requests_.size(); ++i) {
      P2pRequest& request = requests_[i].second;
      request.done = Ending::finished;
      request.arg = &endings[i];
      if (const Result posted = requests_[i].first.comm().post(request); posted != nccl_abi::kSuccess) {
        Ending::finished(&endings[i], posted);
      }
    }
    for (const auto& task : collectives_) keep(task->run(interruptible));
    for (size_t i = 0; i < requests_.size(); ++i) {
      Communicator& comm = requests_[i].first.comm();
      keep(comm.wait_for(endings[i].done, requests_[i].second, pycomms::kForever, interruptible));
      keep(endings[i].result);
    }
    return first;
  }
  bool is_small() const override { return false; }  // its requests should be on their way

 private:
  struct Ending {
    std::atomic<bool> done{false};
    Result result = nccl_abi::kInProgress;
    static void finished(void* arg, Result result) {
      auto* ending = static_cast<Ending*>(arg);
      ending->result = result;
      ending->done.store(true, std::memory_order_release);
    }
  };
  std::vector<std::pair<Held, P2pRequest>> requests_;
  std::vector<std::unique_ptr<CollectiveTask>> collectives_;
};

// The open group of this thread; one task for each stream that it uses.
struct Group {
  int depth = 0;
  std::vector<std::pair<Stream*, std::unique_ptr<GroupTask>>> tasks;

  GroupTask& task_of(Stream* stream) {
    for (auto& [known, task] : tasks) {
      if (known == stream) return *task;
    }
    tasks.emplace_back(stream, std::make_unique<GroupTask>());
    return *tasks.back().second;
  }
};

thread_local Group group;

Result start(Stream* stream, std::unique_ptr<Stream::Task> task) {
  if (stream == nullptr) return task->run(true);
  return stream->enqueue(std::move(task)).is_ok() ? nccl_abi::kSuccess : nccl_abi::kSystemError;
}

}  // namespace

Result issue(Communicator& comm, const Collective& op, Stream* stream) {
  Held held(comm);
  if (!held) return nccl_abi::kInvalidUsage;
  if (group.depth == 0 && stream == nullptr) return comm.run(op, comm.timeout_ns(), true);
  auto task = std::make_unique<CollectiveTask>(std::move(held), op);
  if (group.depth == 0) return start(stream, std::move(task));
  group.task_of(stream).add(std::move(task));
  return nccl_abi::kSuccess;
}

Result issue(Communicator& comm, const P2pRequest& request, Stream* stream) {
  Held held(comm);
  if (!held) return nccl_abi::kInvalidUsage;
  if (group.depth != 0) {
    group.task_of(stream).add(std::move(held), request);
    return nccl_abi::kSuccess;
  }
  if (stream == nullptr) return comm.post(request);
  auto task = std::make_unique<GroupTask>();
  task->add(std::move(held), request);
  return start(stream, std::move(task));
}

Result group_start() {
  ++group.depth;
  return nccl_abi::kSuccess;
}

Result group_end() {
  if (group.depth == 0) return nccl_abi::kInvalidUsage;
  if (--group.depth != 0) return nccl_abi::kSuccess;
  Result first = nccl_abi::kSuccess;
  for (auto& [stream, task] : std::exchange(group.tasks, {})) {
    const Result result = start(stream, std::move(task));
    if (first == nccl_abi::kSuccess) first = result;
  }
  return first;
}

}  // namespace hostccl
