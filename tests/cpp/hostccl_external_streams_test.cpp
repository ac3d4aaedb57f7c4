// Operations on streams that are not ours: their order across streams, groups, graphs, and how they end when something goes
// wrong. The streams are those of fake_streams.h, the ranks are threads.

#include <cstring>
#include <vector>

#include "base/clock.h"
#include "check.h"
#include "fake_streams.h"
#include "hostccl/hostccl.h"
#include "hostccl_world.h"

using namespace nccl_abi;
using namespace hostccl;
using fake::on_device;
using hostccl_test::expect;
using hostccl_test::expect_success;

namespace {

using namespace std::chrono_literals;

// As hostccl_test::run_world, with fake streams for all.
std::string run_world(int nranks, const std::function<void(int, CommHandle)>& body) {
  fake::use_fake_streams();
  return hostccl_test::run_world(nranks, body);
}

// The same, and the body aborts its communicator itself.
std::string run_doomed_world(int nranks, const std::function<void(int, CommHandle)>& body) {
  fake::use_fake_streams();
  UniqueId id;
  if (ncclGetUniqueId(&id) != kSuccess) return "no unique id";
  std::mutex mutex;
  std::string errors;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < nranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        hostcclSetInitTimeout(20'000'000'000);
        CommHandle comm = nullptr;
        expect_success(ncclCommInitRank(&comm, nranks, id, rank), "init");
        hostcclCommSetTimeout(comm, 20'000'000'000);
        body(rank, comm);
      } catch (const std::exception& error) {
        std::lock_guard lock(mutex);
        errors += "rank " + std::to_string(rank) + ": " + error.what() + "\n";
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

Result all_reduce(float* data, size_t count, CommHandle comm, fake::Stream& stream) {
  return ncclAllReduce(on_device(data), on_device(data), count, kFloat32, kSum, comm, &stream);
}

Result async_error(CommHandle comm) {
  Result error = kInternalError;
  ncclCommGetAsyncError(comm, &error);
  return error;
}

void wait_for_error(CommHandle comm) {
  const auto deadline = pycomms::Deadline::after(20 * pycomms::kSecond);
  while (async_error(comm) == kSuccess) {
    expect(!deadline.passed(), "no error came");
    std::this_thread::yield();
  }
}

}  // namespace

TEST(an_operation_runs_in_stream_order_and_the_call_does_not_wait) {
  const std::string errors = run_world(2, [](int rank, CommHandle comm) {
    fake::Stream stream;
    std::vector<float> data(1000);
    const auto held = stream.hold();
    stream.push([&] { data.assign(1000, static_cast<float>(rank + 1)); });
    expect_success(all_reduce(data.data(), data.size(), comm, stream), "issued");
    expect(data[0] == 0, "not before the stream gets there");
    held->set();
    stream.synchronize();
    expect(data.front() == 3 && data.back() == 3, "and after what was queued before it");
  });
  CHECK_EQ(errors, std::string());
}

TEST(nullptr_is_the_default_stream_of_the_caller) {
  const std::string errors = run_world(2, [](int, CommHandle comm) {
    float x = 1;
    expect(ncclAllReduce(&x, &x, 1, kFloat32, kSum, comm, nullptr) == kUnhandledCudaError, "there is none");
    fake::Stream stream;
    fake::default_stream() = &stream;
    const auto held = stream.hold();
    expect_success(ncclAllReduce(on_device(&x), on_device(&x), 1, kFloat32, kSum, comm, nullptr), "issued");
    expect(x == 1, "not on the calling thread");
    held->set();
    stream.synchronize();
    fake::default_stream() = nullptr;
    expect(x == 2, "on the stream");
  });
  CHECK_EQ(errors, std::string());
}

TEST(operations_run_in_the_order_of_their_issue_across_streams) {
  const std::string errors = run_world(2, [](int rank, CommHandle comm) {
    fake::Stream one, two;
    float first = static_cast<float>(rank), second = 10;
    const auto held = one.hold();
    expect_success(all_reduce(&first, 1, comm, one), "first");
    expect_success(all_reduce(&second, 1, comm, two), "second");
    const auto second_ended = two.record();
    if (rank == 0) {
      // Rank 1 is free to run both. If we ran our second now it would meet rank 1's first: they look the same.
      expect(!second_ended->wait(50ms), "the second waits for the first");
    }
    held->set();
    one.synchronize();
    two.synchronize();
    expect(first == 1 && second == 20, "each met its own");
  });
  CHECK_EQ(errors, std::string());
}

TEST(many_operations_on_many_streams) {
  const std::string errors = run_world(3, [](int rank, CommHandle comm) {
    std::vector<fake::Stream> streams(4);
    constexpr size_t kOps = 400;
    std::vector<int32_t> data(kOps);
    for (size_t i = 0; i < kOps; ++i) {
      data[i] = static_cast<int32_t>(i) * (rank + 1);
      // Each rank spreads them in its own way.
      fake::Stream& stream = streams[(i * static_cast<size_t>(rank + 2) + i / 7) % streams.size()];
      expect_success(ncclAllReduce(on_device(&data[i]), on_device(&data[i]), 1, kInt32, kSum, comm, &stream), "issue");
    }
    for (fake::Stream& stream : streams) stream.synchronize();
    for (size_t i = 0; i < kOps; ++i) expect(data[i] == static_cast<int32_t>(i) * 6, "value");
  });
  CHECK_EQ(errors, std::string());
}

TEST(a_group_starts_at_its_end_and_its_requests_progress_together) {
  const std::string errors = run_world(2, [](int rank, CommHandle comm) {
    fake::Stream stream;
    const int peer = 1 - rank;
    std::vector<float> out(300'000, static_cast<float>(rank)), in(300'000, -1);
    float x = 1;
    expect_success(ncclGroupStart(), "start");
    expect_success(ncclSend(on_device(out.data()), out.size(), kFloat32, peer, comm, &stream), "send");
    expect_success(all_reduce(&x, 1, comm, stream), "all_reduce");
    expect_success(ncclRecv(on_device(in.data()), in.size(), kFloat32, peer, comm, &stream), "recv");
    stream.synchronize();
    expect(in[0] == -1 && x == 1, "nothing has started");
    expect_success(ncclGroupEnd(), "end");
    stream.synchronize();
    expect(in.front() == static_cast<float>(peer) && in.back() == static_cast<float>(peer) && x == 2, "all has ended");
  });
  CHECK_EQ(errors, std::string());
}

TEST(a_group_on_several_streams_runs_when_all_of_them_have_come) {
  const std::string errors = run_world(2, [](int rank, CommHandle comm) {
    fake::Stream one, two;
    const int peer = 1 - rank;
    std::vector<float> out(300'000), in(300'000, -1);
    const auto held = two.hold();
    one.push([&] { out.assign(out.size(), static_cast<float>(rank + 5)); });
    expect_success(ncclGroupStart(), "start");
    expect_success(ncclSend(on_device(out.data()), out.size(), kFloat32, peer, comm, &one), "send");
    expect_success(ncclRecv(on_device(in.data()), in.size(), kFloat32, peer, comm, &two), "recv");
    expect_success(ncclGroupEnd(), "end");
    const auto sent = one.record();
    if (rank == 0) expect(!sent->wait(50ms) && in[0] == -1, "the second stream is not there yet");
    held->set();
    two.synchronize();
    expect(in.front() == static_cast<float>(peer + 5) && in.back() == in.front(), "received");
    one.synchronize();
  });
  CHECK_EQ(errors, std::string());
}

TEST(an_error_is_the_communicators_and_not_the_calls) {
  const std::string errors = run_world(2, [](int rank, CommHandle comm) {
    fake::Stream stream;
    float data[8] = {};
    expect_success(all_reduce(data, rank == 0 ? 4 : 8, comm, stream), "issued");
    wait_for_error(comm);
    expect(async_error(comm) == kInvalidUsage, "mismatch");
    expect(std::strstr(ncclGetLastError(comm), "float32[4]") != nullptr, ncclGetLastError(comm));
    stream.synchronize();
    expect(stream.last_result() == 0, "the device is unharmed");
    expect(all_reduce(data, 4, comm, stream) == kInvalidUsage, "no more operations");
  });
  CHECK_EQ(errors, std::string());
}

TEST(a_refused_launch_is_told_and_leaves_no_gap) {
  const std::string errors = run_world(2, [](int, CommHandle comm) {
    fake::Stream stream;
    float x = 1;
    stream.refuse_next();
    expect(all_reduce(&x, 1, comm, stream) == kUnhandledCudaError, "refused");
    expect(std::strlen(ncclGetLastError(nullptr)) != 0, "with a text");
    expect_success(all_reduce(&x, 1, comm, stream), "the next");
    stream.synchronize();
    expect(x == 2, "runs");
  });
  CHECK_EQ(errors, std::string());
}

TEST(work_that_is_dropped_leaves_no_gap) {
  const std::string errors = run_world(2, [](int, CommHandle comm) {
    fake::Stream one, two;
    float x = 1, y = 1;
    const auto held = one.hold();
    expect_success(all_reduce(&x, 1, comm, one), "first");
    expect_success(all_reduce(&y, 1, comm, two), "second");
    one.drop_queued();
    two.synchronize();
    held->set();
    expect(x == 1 && y == 2, "the second ran");
  });
  CHECK_EQ(errors, std::string());
}

TEST(destroy_waits_for_what_is_queued) {
  const std::string errors = run_doomed_world(2, [](int, CommHandle comm) {
    fake::Stream stream;
    float x = 1;
    const auto held = stream.hold();
    expect_success(all_reduce(&x, 1, comm, stream), "issued");
    std::thread other([&] { held->set(); });
    expect_success(ncclCommDestroy(comm), "destroy");
    expect(x == 2, "it has run");
    other.join();
  });
  CHECK_EQ(errors, std::string());
}

TEST(abort_does_not_wait_for_what_is_queued) {
  const std::string errors = run_doomed_world(1, [](int, CommHandle comm) {
    fake::Stream stream;
    auto x = std::make_unique<float>(1.0f);
    const auto held = stream.hold();
    expect_success(all_reduce(x.get(), 1, comm, stream), "issued");
    expect_success(all_reduce(x.get(), 1, comm, stream), "issued");
    expect_success(ncclCommAbort(comm), "abort");
    x.reset();  // whoever touches it now is found by a sanitizer
    held->set();
    stream.synchronize();
    expect(stream.last_result() == 0, "it ended in silence");
  });
  CHECK_EQ(errors, std::string());
}

TEST(abort_ends_what_runs_and_what_waits_for_its_turn) {
  const std::string errors = run_doomed_world(2, [](int rank, CommHandle comm) {
    if (rank == 1) {  // does not take part, and learns of it
      wait_for_error(comm);
      expect_success(ncclCommAbort(comm), "abort");
      return;
    }
    fake::Stream one, two;
    std::vector<float> x(100), y(100);
    fake::Event begun;
    one.push([&] { begun.set(); });
    expect_success(all_reduce(x.data(), x.size(), comm, one), "runs");
    expect_success(all_reduce(y.data(), y.size(), comm, two), "waits for its turn");
    expect(begun.wait(), "begun");
    expect(!two.record()->wait(20ms), "both are at it");
    const int64_t start = pycomms::now_ns();
    expect_success(ncclCommAbort(comm), "abort");
    one.synchronize();
    two.synchronize();
    expect(pycomms::now_ns() - start < 5 * pycomms::kSecond, "soon");
  });
  CHECK_EQ(errors, std::string());
}

TEST(a_turn_that_does_not_come_ends_by_the_deadline) {
  const std::string errors = run_world(1, [](int, CommHandle comm) {
    hostcclCommSetTimeout(comm, 100'000'000);
    fake::Stream one, two;
    float x = 1, y = 1;
    const auto held = one.hold();
    expect_success(all_reduce(&x, 1, comm, one), "never gets there");
    expect_success(all_reduce(&y, 1, comm, two), "waits");
    two.synchronize();
    expect(async_error(comm) == kTimeout, "timeout");
    expect(std::strstr(ncclGetLastError(comm), "for what was issued before it on other streams"),
           ncclGetLastError(comm));
    held->set();
  });
  CHECK_EQ(errors, std::string());
}

TEST(an_operation_that_peers_do_not_join_ends_by_the_deadline) {
  const std::string errors = run_world(2, [](int rank, CommHandle comm) {
    hostcclCommSetTimeout(comm, 100'000'000);
    fake::Stream stream;
    float x = 1;
    if (rank == 0) expect_success(all_reduce(&x, 1, comm, stream), "issued");
    wait_for_error(comm);
    expect(async_error(comm) == kTimeout, ncclGetLastError(comm));
  });
  CHECK_EQ(errors, std::string());
}

TEST(a_premultiplied_sum_reads_its_scalar_when_it_runs) {
  const std::string errors = run_world(2, [](int rank, CommHandle comm) {
    fake::Stream stream;
    float scalar = 0, x = 2, y = 2;
    const float immediate = 3;
    RedOp on_the_device{}, from_the_host{};
    expect_success(ncclRedOpCreatePreMulSum(&on_the_device, on_device(&scalar), kFloat32, kScalarDevice, comm), "op");
    expect_success(
        ncclRedOpCreatePreMulSum(&from_the_host, const_cast<float*>(&immediate), kFloat32, kScalarHostImmediate, comm),
        "op");
    stream.push([&] { scalar = static_cast<float>(rank + 1); });
    expect_success(ncclAllReduce(on_device(&x), on_device(&x), 1, kFloat32, on_the_device, comm, &stream), "one");
    expect_success(ncclAllReduce(on_device(&y), on_device(&y), 1, kFloat32, from_the_host, comm, &stream), "two");
    expect_success(ncclRedOpDestroy(on_the_device, comm), "may be destroyed at once");
    expect_success(ncclRedOpDestroy(from_the_host, comm), "may be destroyed at once");
    stream.synchronize();
    expect(x == 6 && y == 12, "values");
  });
  CHECK_EQ(errors, std::string());
}

TEST(a_graph_repeats_its_operations_in_the_order_of_their_capture) {
  const std::string errors = run_world(2, [](int rank, CommHandle comm) {
    fake::Stream one, two;
    float x = 1, y = static_cast<float>(rank);
    fake::Graph graph{.id = 7, .work = {}};
    one.begin_capture(&graph);
    two.begin_capture(&graph);
    expect_success(all_reduce(&x, 1, comm, one), "captured");
    expect_success(all_reduce(&y, 1, comm, two), "captured");
    one.end_capture();
    two.end_capture();
    float z = 1;
    expect_success(all_reduce(&z, 1, comm, one), "eager");  // what is captured does not stand in its way
    one.synchronize();
    expect(x == 1 && y == static_cast<float>(rank) && z == 2, "capturing runs nothing");
    for (int i = 1; i <= 3; ++i) {
      const auto held = (rank == 0 ? one : two).hold();
      graph.launch();
      held->set();
      one.synchronize();
      two.synchronize();
      expect(x == static_cast<float>(1 << i) && y == static_cast<float>(1 << (i - 1)), "values");
    }
  });
  CHECK_EQ(errors, std::string());
}

TEST(a_graph_may_outlive_its_communicator) {
  const std::string errors = run_doomed_world(2, [](int, CommHandle comm) {
    fake::Stream stream;
    float x = 1;
    fake::Graph graph{.id = 8, .work = {}};
    stream.begin_capture(&graph);
    expect_success(all_reduce(&x, 1, comm, stream), "captured");
    stream.end_capture();
    graph.launch();
    stream.synchronize();
    expect(x == 2 && stream.last_result() == 0, "runs");
    expect_success(ncclCommDestroy(comm), "destroy does not wait for graphs");
    graph.launch();
    stream.synchronize();
    expect(x == 2 && stream.last_result() != 0, "the device is told that there is nothing to run");
  });
  CHECK_EQ(errors, std::string());
}

CHECK_MAIN()
