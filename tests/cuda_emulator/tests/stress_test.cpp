// Many threads use the runtime at once, without torch: for TSan, and for deadlocks. Every thread checks the data that goes
// through its own streams.

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "abi.h"
#include "emulator.h"

using namespace cuda_abi;

extern "C" {
Error cudaSetDevice(int index);
Error cudaMalloc(void** out, size_t bytes);
Error cudaFree(void* start);
Error cudaMallocAsync(void** out, size_t bytes, StreamHandle stream);
Error cudaFreeAsync(void* start, StreamHandle stream);
Error cudaHostAlloc(void** out, size_t bytes, unsigned flags);
Error cudaFreeHost(void* start);
Error cudaMemcpyAsync(void* to, const void* from, size_t bytes, MemcpyKind kind, StreamHandle stream);
Error cudaMemsetAsync(void* to, int value, size_t bytes, StreamHandle stream);
Error cudaStreamCreateWithFlags(StreamHandle* out, unsigned flags);
Error cudaStreamDestroy(StreamHandle stream);
Error cudaStreamSynchronize(StreamHandle stream);
Error cudaStreamWaitEvent(StreamHandle stream, EventHandle event, unsigned flags);
Error cudaEventCreateWithFlags(EventHandle* out, unsigned flags);
Error cudaEventDestroy(EventHandle event);
Error cudaEventRecord(EventHandle event, StreamHandle stream);
Error cudaEventSynchronize(EventHandle event);
Error cudaEventQuery(EventHandle event);
Error cudaDeviceSynchronize();
Error cudaStreamBeginCapture(StreamHandle stream, CaptureMode mode);
Error cudaStreamEndCapture(StreamHandle stream, GraphHandle* graph);
Error cudaGraphInstantiateWithFlags(GraphExecHandle* out, GraphHandle graph, unsigned long long flags);
Error cudaGraphLaunch(GraphExecHandle exec, StreamHandle stream);
Error cudaGraphDestroy(GraphHandle graph);
Error cudaGraphExecDestroy(GraphExecHandle exec);
}

namespace {

constexpr size_t kBytes = 4096;
constexpr int kThreads = 4;
constexpr int kRounds = 200;
constexpr unsigned kDeadlineSeconds = 120;

std::atomic<int> live_arguments{0};

void check(Error error, const char* what, int line) {
  if (error == kSuccess) return;
  std::printf("FAILED line %d: %s returned %d\n", line, what, error);
  std::fflush(stdout);
  std::_Exit(1);
}
#define DO(call) check(call, #call, __LINE__)

void expect_byte(const std::byte* bytes, int value, int line) {
  check(static_cast<int>(bytes[kBytes - 1]) == value ? kSuccess : kUnknown, "the data", line);
}

struct Work {
  void* target;
  int value;
  Work(void* to, int v) : target(to), value(v) { live_arguments.fetch_add(1); }
  ~Work() { live_arguments.fetch_sub(1); }
};

// Fills memory as a libnccl stand-in would: from a piece of work, through the second mapping.
int fill(void* arg) {
  const auto* work = static_cast<Work*>(arg);
  std::memset(cuemu_bytes(work->target), work->value, kBytes);
  return kSuccess;
}

void queue_fill(StreamHandle stream, void* target, int value) {
  const auto destroy = [](void* arg) { delete static_cast<Work*>(arg); };
  check(static_cast<Error>(cuemu_launch(stream, "fill", fill, destroy, new Work(target, value))), "cuemu_launch",
        __LINE__);
}

// producer --event--> consumer, with streams that are destroyed while busy.
void pass_through_streams(int value, void* first, void* second, void* pinned, EventHandle event) {
  StreamHandle producer{}, consumer{};
  DO(cudaStreamCreateWithFlags(&producer, kStreamNonBlocking));
  DO(cudaStreamCreateWithFlags(&consumer, value % 2 == 0 ? 0 : kStreamNonBlocking));
  queue_fill(producer, first, value);
  DO(cudaEventRecord(event, producer));
  DO(cudaStreamWaitEvent(consumer, event, 0));
  DO(cudaMemcpyAsync(second, first, kBytes, kCopyDefault, consumer));
  DO(cudaMemcpyAsync(pinned, second, kBytes, kCopyDefault, consumer));
  DO(cudaEventRecord(event, consumer));
  DO(cudaStreamDestroy(producer));
  DO(cudaStreamDestroy(consumer));
  while (cudaEventQuery(event) == kNotReady) std::this_thread::yield();
  DO(cudaEventSynchronize(event));
  expect_byte(static_cast<std::byte*>(pinned), value, __LINE__);
}

void pass_through_a_graph(int value, void* device, void* pinned) {
  StreamHandle stream{};
  GraphHandle graph{};
  GraphExecHandle exec{};
  DO(cudaStreamCreateWithFlags(&stream, kStreamNonBlocking));
  DO(cudaStreamBeginCapture(stream, kCaptureThreadLocal));
  queue_fill(stream, device, value);
  DO(cudaMemcpyAsync(pinned, device, kBytes, kCopyDefault, stream));
  DO(cudaStreamEndCapture(stream, &graph));
  DO(cudaGraphInstantiateWithFlags(&exec, graph, 0));
  DO(cudaGraphDestroy(graph));
  DO(cudaGraphLaunch(exec, stream));
  DO(cudaGraphLaunch(exec, stream));
  DO(cudaGraphExecDestroy(exec));
  DO(cudaStreamSynchronize(stream));
  expect_byte(static_cast<std::byte*>(pinned), value, __LINE__);
  DO(cudaStreamDestroy(stream));
}

void pass_through_a_pool(int value, StreamHandle stream, void* pinned) {
  void* piece = nullptr;
  DO(cudaMallocAsync(&piece, kBytes, stream));
  DO(cudaMemsetAsync(piece, value, kBytes, stream));
  DO(cudaMemcpyAsync(pinned, piece, kBytes, kCopyDefault, stream));
  DO(cudaFreeAsync(piece, stream));
  DO(cudaStreamSynchronize(stream));
  expect_byte(static_cast<std::byte*>(pinned), value, __LINE__);
}

void one_thread(int number) {
  DO(cudaSetDevice(number % 2));
  void *first = nullptr, *second = nullptr, *pinned = nullptr;
  EventHandle event{};
  StreamHandle stream{};
  DO(cudaMalloc(&first, kBytes));
  DO(cudaMalloc(&second, kBytes));
  DO(cudaHostAlloc(&pinned, kBytes, 0));
  DO(cudaEventCreateWithFlags(&event, kEventDisableTiming));
  DO(cudaStreamCreateWithFlags(&stream, kStreamNonBlocking));
  for (int round = 0; round < kRounds; ++round) {
    const int value = (number * kRounds + round) % 250 + 1;
    pass_through_streams(value, first, second, pinned, event);
    pass_through_a_graph(value + 1, first, pinned);
    pass_through_a_pool(value + 2, stream, pinned);
    if (round % 16 == 0) DO(cudaDeviceSynchronize());
  }
  DO(cudaStreamDestroy(stream));
  DO(cudaEventDestroy(event));
  DO(cudaFreeHost(pinned));
  DO(cudaFree(first));
  DO(cudaFree(second));
}

}  // namespace

int main() {
  alarm(kDeadlineSeconds);
  cuemu_set_delays(0, 50, 1);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(one_thread, i);
  for (auto& thread : threads) thread.join();
  cuemu_live live;
  cuemu_count_live(&live);
  const size_t left = live.streams + live.events + live.graphs + live.graph_execs + live.device_bytes;
  std::printf("%zu objects left, %d arguments left\n", left, live_arguments.load());
  return left == 0 && live_arguments == 0 ? 0 : 1;
}
