#include "nccl2/c10d/sparse.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sparse_coo_tensor.h>

#include <iomanip>
#include <limits>
#include <numeric>
#include <sstream>

#include "base/thread.h"
#include "nccl2/c10d/convert.h"
#include "nccl2/c10d/errors.h"
#include "nccl2/c10d/sparse_shape.h"
#include "nccl2/core/launch.h"

namespace pycomms::c10d_backend {
namespace {

constexpr int64_t kHookId = std::numeric_limits<int64_t>::min();  // none of torch's

// What the lane met, without what is the lane's own: its steps, and the name under which it connects.
std::string in_words(const ErrorDetail& met, int64_t waited_ns) {
  const std::string who = met.ranks.empty() ? "a rank" : rank_list(met.ranks);
  switch (met.kind) {
    case ErrorKind::kTimeout: {
      std::ostringstream text;
      text << who << " did not come within " << std::setprecision(3) << static_cast<double>(waited_ns) / kSecond
           << " s";
      return text.str();
    }
    case ErrorKind::kPeerFailure:
      return who + " died or left";
    case ErrorKind::kInterrupted:
      return who + " was interrupted";
    case ErrorKind::kRevoked:
    case ErrorKind::kClosed:
      return "the group was given up";
    case ErrorKind::kUsage:
    case ErrorKind::kMismatch:
    case ErrorKind::kNotFinite:
    case ErrorKind::kSystem:
      break;
  }
  return met.message;
}

}  // namespace

SparseLane::SparseLane(std::shared_ptr<Communicator> group, std::unique_ptr<Communicator> own,
                       std::shared_ptr<AbortHooks> hooks)
    : group_(std::move(group)), own_(std::move(own)), hooks_(std::move(hooks)) {
  hooks_->add(kHookId, [own = std::weak_ptr(own_), group = std::weak_ptr(group_)] {
    const auto lane = own.lock();
    const auto failed = group.lock();
    if (!lane || !failed) return;
    ErrorDetail why = failed->first_error().detail();
    why.message = "the group has failed";
    static_cast<void>(lane->give_up(std::move(why)));
  });
}

SparseLane::~SparseLane() {
  hooks_->remove(kHookId);
  abort("the group was destroyed");
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Error SparseLane::run(at::Tensor tensor, int64_t timeout) {
  {
    std::unique_lock lock(mutex_);
    const auto limit = std::chrono::nanoseconds(timeout);
    if (!changed_.wait_for(lock, limit, [&] { return !busy_ && tasks_.empty(); })) {
      return group_->give_up(make_error(ErrorKind::kTimeout, "earlier ones of this group are still running").detail());
    }
    busy_ = true;
  }
  Error error = all_reduce_or_fail(tensor, timeout);
  {
    const std::lock_guard lock(mutex_);
    busy_ = false;
  }
  changed_.notify_all();
  return error;
}

void SparseLane::queue(at::Tensor tensor, int64_t timeout, std::function<void(Error)> done) {
  if (Status started = start_thread_if_none(); !started.is_ok()) {
    return done(group_->give_up(make_error(ErrorKind::kSystem, started.message()).detail()));
  }
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back({std::move(tensor), timeout, std::move(done)});
  }
  changed_.notify_all();
}

Status SparseLane::start_thread_if_none() {
  const std::lock_guard lock(mutex_);
  if (thread_.joinable()) return {};
  auto thread = start_thread("pycomms-sparse", [this] { serve(); });
  if (!thread.is_ok()) return thread.status();
  thread_ = thread.take();
  return {};
}

void SparseLane::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return (!tasks_.empty() && !busy_) || (stopping_ && tasks_.empty()); });
    if (tasks_.empty()) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    busy_ = true;
    lock.unlock();
    const Error error = all_reduce_or_fail(task.tensor, task.timeout);
    task.tensor.reset();  // before anybody hears that it has ended
    task.done(error);
    task = {};
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

// An error is the group's: no member can go on when one of them is out of step.
Error SparseLane::all_reduce_or_fail(const at::Tensor& tensor, int64_t timeout) {
  if (Error error = group_->need_all(OpKind::kAllReduceSparse)) return error;
  Error error;
  try {
    error = all_reduce(tensor, timeout);
  } catch (const std::exception& e) {
    error = make_error(ErrorKind::kSystem, text_of(e));  // of torch: no memory
  }
  if (!error) return error;
  // The group may have failed first, or know better who is gone and how.
  if (Error of_group = group_->need_all(OpKind::kAllReduceSparse)) return of_group;
  return group_->give_up(error.detail());
}

Error SparseLane::all_reduce(const at::Tensor& tensor, int64_t timeout) {
  const at::Tensor mine = tensor.coalesce();
  std::vector<int64_t> nnz;
  if (Error error = gather_shapes(mine, timeout, &nnz)) return error;
  at::Tensor indices;
  at::Tensor values;
  // Indices travel as rows, one per element, so that the pieces of the ranks follow each other.
  if (Error error = gather(mine.indices().t().contiguous(), nnz, timeout, &indices)) return error;
  if (Error error = gather(mine.values().contiguous(), nnz, timeout, &values)) return error;
  const at::Tensor sum = at::sparse_coo_tensor(indices.t(), values, tensor.sizes(), tensor.options()).coalesce();
  at::Tensor(tensor).copy_(sum);
  return {};
}

// One step, on the lane's communicator.
template <typename Call>
Error SparseLane::step(int64_t timeout, Call&& call) {
  const int64_t begun = now_ns();
  const Error error = run_inline(*own_, OpKind::kAllReduceSparse, timeout, call);
  if (!error) return error;
  const Error first = own_->first_error();
  const ErrorDetail& met = (first ? first : error).detail();
  return make_error(met.kind, in_words(met, now_ns() - begun), met.ranks);
}

Error SparseLane::gather_shapes(const at::Tensor& mine, int64_t timeout, std::vector<int64_t>* nnz) {
  const SparseShape own = SparseShape::of(mine);
  std::vector<SparseShape> all(own_->size());
  if (Error error = step(timeout, [&](const Engine& engine, CommHandle comm, StreamHandle stream) {
        return engine.nccl.all_gather(&own, all.data(), kSparseShapeWords, nccl_abi::kInt64, comm, stream);
      })) {
    return error;
  }
  for (const SparseShape& each : all) nnz->push_back(each.nnz);
  const std::string text = differences(all);
  if (text.empty()) return {};
  std::vector<int> ranks(all.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return make_error(ErrorKind::kMismatch, "the tensors differ between ranks: " + text, std::move(ranks));
}

Error SparseLane::gather(const at::Tensor& mine, const std::vector<int64_t>& rows, int64_t timeout, at::Tensor* all) {
  std::vector<int64_t> sizes = mine.sizes().vec();
  int64_t row = 1;
  for (size_t i = 1; i < sizes.size(); ++i) row *= sizes[i];
  sizes[0] = 0;
  for (const int64_t each : rows) sizes[0] += each;
  *all = at::empty(sizes, mine.options());

  const DataType type = to_data_type(mine.scalar_type());
  std::vector<size_t> counts;
  std::vector<void*> pieces;
  auto* at = static_cast<char*>(all->data_ptr());
  for (const int64_t each : rows) {
    counts.push_back(static_cast<size_t>(each * row));
    pieces.push_back(at);
    at += static_cast<size_t>(each * row) * mine.element_size();
  }
  return step(timeout, [&](const Engine& engine, CommHandle comm, StreamHandle stream) {
    return engine.host.all_gather_v(mine.const_data_ptr(), pieces.data(), counts.data(), type, comm, stream);
  });
}

Error SparseLane::make_error(ErrorKind kind, const std::string& what, std::vector<int> ranks) const {
  ErrorDetail detail;
  detail.kind = kind;
  detail.op = traits(OpKind::kAllReduceSparse).name;
  detail.ranks = std::move(ranks);
  detail.message = detail.op + ": " + what;
  return Error(std::move(detail));
}

}  // namespace pycomms::c10d_backend
