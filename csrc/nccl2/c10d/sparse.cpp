#include "nccl2/c10d/sparse.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <pthread.h>

#include <limits>

#include "nccl2/c10d/convert.h"
#include "nccl2/c10d/errors.h"
#include "nccl2/core/launch.h"

namespace pycomms::c10d_backend {
namespace {

// What ranks tell each other first: layout, then sizes, of a fixed length.
constexpr int64_t kMaxDims = 60;
constexpr int64_t kShapeWords = 4 + kMaxDims;

constexpr int64_t kHookId = std::numeric_limits<int64_t>::min();  // none of torch's

std::vector<int64_t> shape_words(const at::Tensor& tensor) {
  std::vector<int64_t> words(kShapeWords, 0);
  words[0] = tensor._nnz();
  words[1] = tensor.sparse_dim();
  words[2] = tensor.dense_dim();
  words[3] = static_cast<int64_t>(tensor.scalar_type());
  std::copy(tensor.sizes().begin(), tensor.sizes().end(), words.begin() + 4);
  return words;
}

}  // namespace

SparseLane::SparseLane(std::shared_ptr<Communicator> group, std::unique_ptr<Communicator> own,
                       std::shared_ptr<AbortHooks> hooks)
    : group_(std::move(group)), own_(std::move(own)), hooks_(std::move(hooks)) {
  hooks_->add(kHookId, [own = std::weak_ptr(own_), group = std::weak_ptr(group_)] {
    const auto lane = own.lock();
    const auto failed = group.lock();
    if (lane && failed) static_cast<void>(lane->give_up(failed->first_error()));
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
      return group_->give_up(make_error(ErrorKind::kTimeout, "earlier ones of this group are still running"));
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
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back({std::move(tensor), timeout, std::move(done)});
    if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
  }
  changed_.notify_all();
}

void SparseLane::serve() {
  pthread_setname_np(pthread_self(), "pycomms-sparse");
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
  ErrorDetail detail = error.detail();
  detail.op = traits(OpKind::kAllReduceSparse).name;
  detail.sequence = 0;  // the number is one of the lane's own
  detail.group = group_->group();
  return group_->give_up(Error(std::move(detail)));
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

Error SparseLane::gather_shapes(const at::Tensor& mine, int64_t timeout, std::vector<int64_t>* nnz) {
  const std::vector<int64_t> own = shape_words(mine);
  std::vector<int64_t> all(kShapeWords * own_->size());
  if (Error error = run_inline(
          *own_, OpKind::kAllReduceSparse, timeout, [&](const Engine& engine, CommHandle comm, StreamHandle stream) {
            return engine.nccl.all_gather(own.data(), all.data(), own.size(), nccl_abi::kInt64, comm, stream);
          })) {
    return error;
  }
  std::vector<int> odd;
  for (int rank = 0; rank < own_->size(); ++rank) {
    const auto theirs = all.begin() + rank * kShapeWords;
    nnz->push_back(theirs[0]);
    if (!std::equal(own.begin() + 1, own.end(), theirs + 1)) odd.push_back(rank);
  }
  if (odd.empty()) return {};
  odd.push_back(own_->rank());
  return make_error(ErrorKind::kMismatch, "the tensors differ in shape, type or number of sparse dimensions",
                    std::move(odd));
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
  return run_inline(
      *own_, OpKind::kAllReduceSparse, timeout, [&](const Engine& engine, CommHandle comm, StreamHandle stream) {
        return engine.host.all_gather_v(mine.const_data_ptr(), pieces.data(), counts.data(), type, comm, stream);
      });
}

Error SparseLane::make_error(ErrorKind kind, const std::string& what, std::vector<int> ranks) const {
  ErrorDetail detail;
  detail.kind = kind;
  detail.op = traits(OpKind::kAllReduceSparse).name;
  detail.group = group_->group();
  detail.rank = group_->rank();
  detail.ranks = std::move(ranks);
  detail.message = "rank " + std::to_string(detail.rank) + " of group " + detail.group + ": " + detail.op + ": " + what;
  return Error(std::move(detail));
}

}  // namespace pycomms::c10d_backend
