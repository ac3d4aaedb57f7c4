// A rank of oneCCL on host memory. Started by the mpiexec of Intel MPI, which is also oneCCL's transport:
//   mpiexec -n 2 oneccl_rank SOCKET CORES MEETING_FILE
// Compiled at bench time against the wheel (bench/contestants/oneccl.py). Must not know torch or ours.
#include <fstream>
#include <functional>
#include <memory>
#include <thread>

#include <oneapi/ccl.hpp>

#include "rank_link.h"

namespace {

using bench::Command;
using bench::Reply;

constexpr int kAsyncDepth = 64;  // ASYNC_DEPTH of bench/plan.py

int from_launcher(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) bench::die(std::string(name) + " is not set: not started by mpiexec");
  return std::stoi(value);
}

// Rank 0 publishes its address in a file; the others wait for it, at most a minute.
std::shared_ptr<ccl::kvs> meet(int rank, const std::string& path) {
  if (rank == 0) {
    auto kvs = ccl::create_main_kvs();
    const ccl::kvs::address_type address = kvs->get_address();
    std::ofstream(path + ".new", std::ios::binary).write(address.data(), address.size());
    if (std::rename((path + ".new").c_str(), path.c_str()) != 0) bench::die("cannot publish the address");
    return kvs;
  }
  ccl::kvs::address_type address;
  for (const int64_t deadline = bench::now_ns() + 60'000'000'000; bench::now_ns() < deadline;) {
    if (std::ifstream in{path, std::ios::binary}; in.read(address.data(), address.size()))
      return ccl::create_kvs(address);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  bench::die("rank 0 did not publish its address");
}

// What the Python ranks do in bench/ranks/operations.py.
class Operations {
 public:
  explicit Operations(ccl::communicator& comm) : comm_(comm), rank_(comm.rank()), world_(comm.size()) {}

  Reply prepare(const std::string& op, size_t size) {
    release();
    const size_t whole = std::max<size_t>(1, size / sizeof(float));
    const size_t part = std::max<size_t>(1, size / sizeof(float) / world_);
    const float rank_sum = world_ * (world_ + 1) / 2.0f;  // of 1, 2, ... world
    const auto f32 = ccl::datatype::float32;
    const auto sum = ccl::reduction::sum;
    if (op == "all_reduce") {
      in_.assign(whole, rank_ + 1.0f);
      call_ = [=, this] { ccl::allreduce(in_.data(), in_.data(), whole, f32, sum, comm_).wait(); };
      return verify(in_, [&](size_t) { return rank_sum; });
    }
    if (op == "all_reduce_async") {
      per_ = kAsyncDepth;
      in_.assign(whole * kAsyncDepth, rank_ + 1.0f);
      call_ = [=, this] {
        for (int i = 0; i < kAsyncDepth; ++i) {
          float* at = in_.data() + i * whole;
          events_.push_back(ccl::allreduce(at, at, whole, f32, sum, comm_));
        }
        for (ccl::event& event : events_) event.wait();
        events_.clear();
      };
      return verify(in_, [&](size_t) { return rank_sum; });
    }
    if (op == "all_gather") {
      in_.assign(part, rank_ + 1.0f);
      out_.assign(part * world_, 0);
      call_ = [=, this] { ccl::allgather(in_.data(), out_.data(), part, f32, comm_).wait(); };
      return verify(out_, [&](size_t i) { return i / part + 1.0f; });
    }
    if (op == "reduce_scatter") {
      in_.assign(part * world_, rank_ + 1.0f);
      out_.assign(part, 0);
      call_ = [=, this] { ccl::reduce_scatter(in_.data(), out_.data(), part, f32, sum, comm_).wait(); };
      return verify(out_, [&](size_t) { return rank_sum; });
    }
    if (op == "broadcast") {
      in_.assign(whole, rank_ + 1.0f);
      call_ = [=, this] { ccl::broadcast(in_.data(), whole, f32, 0, comm_).wait(); };
      return verify(in_, [&](size_t) { return 1.0f; });
    }
    if (op == "all_to_all") {
      in_.resize(part * world_);
      for (size_t i = 0; i < in_.size(); ++i) in_[i] = rank_ + 10.0f * (i / part);
      out_.assign(part * world_, 0);
      call_ = [=, this] { ccl::alltoall(in_.data(), out_.data(), part, f32, comm_).wait(); };
      return verify(out_, [&](size_t i) { return i / part + 10.0f * rank_; });
    }
    if (op == "reduce") {
      in_.assign(whole, rank_ + 1.0f);
      out_.assign(whole, 0);
      call_ = [=, this] { ccl::reduce(in_.data(), out_.data(), whole, f32, sum, 0, comm_).wait(); };
      return rank_ == 0 ? verify(out_, [&](size_t) { return rank_sum; }) : verify({}, nullptr);
    }
    if (op == "barrier") {
      call_ = [this] { ccl::barrier(comm_).wait(); };
      return verify({}, nullptr);
    }
    Reply reply;
    reply.unsupported = "not measured with oneCCL";
    return reply;
  }

  Reply run(const Command& shape) {
    Reply reply;
    const int64_t start = bench::now_ns(), queued = bench::queued_ns();
    reply.series.push_back({"", bench::measure(shape, per_, call_)});
    reply.wall_ns = bench::now_ns() - start;
    reply.queued_ns = bench::queued_ns() - queued;
    return reply;
  }

  void release() {
    call_ = nullptr;
    per_ = 1;
    in_ = std::vector<float>();
    out_ = std::vector<float>();
  }

 private:
  // One call; the result must be what `expected` says of each element. Leaves zeros.
  Reply verify(const std::vector<float>& result, const std::function<float(size_t)>& expected) {
    Reply reply;
    call_();
    for (size_t i = 0; i < result.size() && reply.error.empty(); ++i)
      if (result[i] != expected(i)) reply.error = "wrong result";
    std::fill(in_.begin(), in_.end(), 0.0f);
    return reply;
  }

  ccl::communicator& comm_;
  const int rank_, world_;
  int per_ = 1;
  std::function<void()> call_;
  std::vector<float> in_, out_;
  std::vector<ccl::event> events_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) bench::die("usage: oneccl_rank SOCKET CORES MEETING_FILE");
  const int rank = from_launcher("PMI_RANK"), world = from_launcher("PMI_SIZE");
  bench::pin_to(bench::core_of(argv[2], rank));
  ccl::init();
  auto comm = ccl::create_communicator(world, rank, meet(rank, argv[3]));
  const auto version = ccl::get_library_version();
  bench::RankLink link(argv[1], "oneccl", rank,
                       "oneCCL " + std::to_string(version.major) + "." + std::to_string(version.minor));
  Operations operations(comm);
  Command command;
  while (link.next(command)) {
    Reply reply;
    if (command.verb == "prepare") reply = operations.prepare(command.op, command.size);
    if (command.verb == "run") reply = operations.run(command);
    if (command.verb == "release") operations.release();
    link.answer(reply);
  }
  return 0;
}
