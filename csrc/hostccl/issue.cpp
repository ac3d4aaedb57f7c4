#include "hostccl/issue.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "hostccl/batch.h"
#include "hostccl/external_issue.h"
#include "hostccl/external_streams.h"
#include "hostccl/stream.h"

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

class BatchTask final : public Stream::Task {
 public:
  BatchTask(Batch batch, std::vector<Held> held) : held_(std::move(held)), batch_(std::move(batch)) {}
  Result run(bool interruptible) override { return batch_.run(interruptible); }
  bool is_small() const override { return false; }  // its requests should be on their way

 private:
  std::vector<Held> held_;
  Batch batch_;
};

// What a group has collected: for each stream of ours, or for all external ones together.
struct Part {
  StreamHandle stream;
  std::vector<StreamHandle> others;  // external ones
  Batch batch;
  std::vector<Held> held;

  bool is_on(StreamHandle s) const { return s == stream || std::find(others.begin(), others.end(), s) != others.end(); }
  template <typename Operation>
  void add(Held operation_on, const Operation& operation) {
    batch.add(operation_on.comm(), operation);
    held.push_back(std::move(operation_on));
  }
  Result start();
};

// The open group of this thread.
struct Group {
  int depth = 0;
  std::vector<Part> parts;

  Part& part_of(StreamHandle stream) {
    for (Part& part : parts) {
      if (part.is_on(stream)) return part;
    }
    if (!parts.empty() && external_streams() != nullptr) {
      parts.front().others.push_back(stream);
      return parts.front();
    }
    parts.push_back({stream, {}, {}, {}});
    return parts.back();
  }
};

thread_local Group group;

Result enqueue(StreamHandle stream, std::unique_ptr<Stream::Task> task) {
  const bool queued = static_cast<Stream*>(stream)->enqueue(std::move(task)).is_ok();
  return queued ? nccl_abi::kSuccess : nccl_abi::kSystemError;
}

Result Part::start() {
  if (external_streams() != nullptr) return issue_externally(std::move(batch), stream, others);
  if (stream == nullptr) return batch.run(true);
  return enqueue(stream, std::make_unique<BatchTask>(std::move(batch), std::move(held)));
}

template <typename Operation>
Result start_alone(Held held, const Operation& operation, StreamHandle stream) {
  Part part{stream, {}, {}, {}};
  part.add(std::move(held), operation);
  return part.start();
}

// Not inlined: the way of what runs on the calling thread is short.
[[gnu::noinline]] Result issue_for_later(Held held, const Collective& op, StreamHandle stream) {
  if (group.depth != 0) {
    group.part_of(stream).add(std::move(held), op);
    return nccl_abi::kSuccess;
  }
  if (external_streams() != nullptr) return start_alone(std::move(held), op, stream);
  return enqueue(stream, std::make_unique<CollectiveTask>(std::move(held), op));
}

}  // namespace

Result issue(Communicator& comm, const Collective& op, StreamHandle stream) {
  Held held(comm);
  if (!held) return nccl_abi::kInvalidUsage;
  if (group.depth == 0 && stream == nullptr && external_streams() == nullptr) {
    return comm.run(op, comm.timeout_ns(), true);
  }
  return issue_for_later(std::move(held), op, stream);
}

Result issue(Communicator& comm, const P2pRequest& request, StreamHandle stream) {
  Held held(comm);
  if (!held) return nccl_abi::kInvalidUsage;
  if (group.depth != 0) {
    group.part_of(stream).add(std::move(held), request);
    return nccl_abi::kSuccess;
  }
  if (external_streams() == nullptr && stream == nullptr) return comm.post(request);
  return start_alone(std::move(held), request, stream);
}

Result group_start() {
  ++group.depth;
  return nccl_abi::kSuccess;
}

Result group_end() {
  if (group.depth == 0) return nccl_abi::kInvalidUsage;
  if (--group.depth != 0) return nccl_abi::kSuccess;
  Result first = nccl_abi::kSuccess;
  for (Part& part : std::exchange(group.parts, {})) {
    const Result result = part.start();
    if (first == nccl_abi::kSuccess) first = result;
  }
  return first;
}

}  // namespace hostccl
