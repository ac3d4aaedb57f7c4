// What becomes of those who ask windows over TCP wrongly, stop in the middle, or go; and of whoever asks those who have gone.

#include <sys/wait.h>

#include <cstring>

#include "windows_world.h"

using namespace windows_test;

namespace {

constexpr int64_t kMoment = 50 * pycomms::kMillisecond;

std::span<const WindowPiece> one(const WindowPiece& piece) { return {&piece, 1}; }
bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Somebody with a connection who says what it likes.
class Mouth {
 public:
  Mouth(World& world, int from, int to) : socket_(world.dial(from, to)) {}

  void say(const void* data, size_t bytes) {
    std::span<const std::byte> left(static_cast<const std::byte*>(data), bytes);
    CHECK(net_test::eventually([&] {
      const ssize_t sent = net::send_some(socket_, left);
      CHECK(sent >= 0);
      left = left.subspan(static_cast<size_t>(sent));
      return left.empty();
    }));
  }
  void ask(WindowRequestKind kind, uint8_t flags, std::span<const WindowPiece> pieces, uint64_t payload) {
    WindowRequest request = make_request(kind, 1);
    request.number = ++number_;
    request.flags = flags;
    request.pieces = static_cast<uint32_t>(pieces.size());
    request.bytes = payload;
    say(&request, sizeof(request));
    say(pieces.data(), pieces.size_bytes());
  }
  void hear(void* data, size_t bytes) {
    std::span<std::byte> left(static_cast<std::byte*>(data), bytes);
    CHECK(net_test::eventually([&] {
      const ssize_t got = net::receive_some(socket_, left);
      CHECK(got >= 0);
      left = left.subspan(static_cast<size_t>(got));
      return left.empty();
    }));
  }
  WindowAnswer hear_answer() {
    WindowAnswer answer;
    hear(&answer, sizeof(answer));
    CHECK_EQ(check_answer(answer, number_), "");
    return answer;
  }
  bool was_closed() {
    std::byte byte;
    return net_test::eventually([&] { return net::receive_some(socket_, {&byte, 1}) < 0; });
  }

 private:
  net::Descriptor socket_;
  uint64_t number_ = 0;
};

WindowVerdict verdict_of(const WindowAnswer& answer) { return static_cast<WindowVerdict>(answer.verdict); }

// A target that does not answer, while it lives.
struct Held {
  explicit Held(Rank& target) : rank(target) { rank.is_held = true; }
  ~Held() { rank.is_held = false; }
  Rank& rank;
};

}  // namespace

TEST(errors_of_requests_that_nobody_waited_for_are_kept) {
  World world(2);
  world[1].open(1, 64);
  WindowOrigin& origin = *world[0].origin;
  const WindowPiece outside{60, 8}, inside{0, 8};
  const auto data = pattern(8, 1);
  must(origin.put(1, 1, one(outside), data.data(), nullptr, soon()));
  const Status flushed = origin.flush(1, soon());
  CHECK(flushed.code() == Code::kInvalidArgument);
  CHECK(contains(flushed.message(), "window 1 of rank 1: 8 bytes at offset 60 are not inside its 64 bytes"));
  must(origin.flush(1, soon()));

  must(origin.update(1, 9, one(inside), nccl_abi::kInt64, WindowOp::kSum, data.data(), nullptr, soon()));
  std::vector<std::byte> back(8);
  const Status got = origin.get(1, 1, one(inside), back.data(), soon());
  CHECK(got.code() == Code::kPeerFailure);
  CHECK(contains(got.message(), "in window 9 has failed: rank 1 has closed the window"));
  must(origin.get(1, 1, one(inside), back.data(), soon()));
}

TEST(what_becomes_of_a_part_is_told_to_its_guests) {
  World world(3);
  WindowMemory& memory = world[1].open(1, 64);
  CHECK(memory.told_by(0) == WindowState::kOpen);
  must(world[0].origin->tell(1, 1, WindowState::kClosing, soon()));
  CHECK(memory.told_by(0) == WindowState::kClosing && memory.told_by(2) == WindowState::kOpen);
  // What was lost before is told to whoever asks for something.
  const WindowPiece outside{60, 8};
  const auto data = pattern(8, 1);
  must(world[2].origin->put(1, 1, one(outside), data.data(), nullptr, soon()));
  must(world[2].origin->tell(1, 1, WindowState::kClosed, soon()));
  CHECK(memory.told_by(2) == WindowState::kClosed);
  CHECK(world[2].origin->flush(1, soon()).code() == Code::kInvalidArgument);
  CHECK(world[2].origin->tell(1, 9, WindowState::kClosed, soon()).code() == Code::kPeerFailure);
}

TEST(what_the_target_refuses) {
  World world(2);
  world[1].open(1, 64);
  WindowOrigin& origin = *world[0].origin;
  const WindowPiece odd{4, 8}, inside{0, 8};
  std::byte data[16] = {};
  const auto refused = [](const Status& status, const char* words) {
    CHECK(status.code() == Code::kInvalidArgument);
    CHECK(contains(status.message(), words));
  };
  refused(origin.update(1, 1, one(odd), nccl_abi::kInt64, WindowOp::kSum, data, data, soon()), "whole elements");
  refused(origin.update(1, 1, one(inside), nccl_abi::kInt8, WindowOp::kSum, data, data, soon()), "elements of int8");
  refused(origin.update(1, 1, one(inside), nccl_abi::kFloat64, WindowOp::kBitAnd, data, data, soon()), "band");
  refused(origin.compare_swap(1, 1, 4, nccl_abi::kInt64, data, data, data, soon()), "whole elements");
  refused(origin.compare_swap(1, 1, 0, nccl_abi::kInt8, data, data, data, soon()), "");
  must(origin.signal(1, 1, {100, SignalChange::kAdd, 1}, soon()));
  refused(origin.flush(1, soon()), "slot is 100");
  refused(origin.flush(0, soon()), "peer is 0");
  refused(origin.flush(2, soon()), "peer is 2");
  CHECK_EQ(world[1].service->rejections(), 0);
}

TEST(nonsense_closes_one_connection) {
  World world(3);
  WindowMemory& memory = world[1].open(1, 64);
  const WindowPiece inside{0, 64};
  Mouth mouth(world, 0, 1);
  mouth.ask(WindowRequestKind::kPut, kAnswered, one(inside), 64);
  mouth.say(pattern(64, 1).data(), 64);
  CHECK(verdict_of(mouth.hear_answer()) == WindowVerdict::kDone);
  mouth.ask(WindowRequestKind::kPut, kAnswered, one(inside), 65);
  CHECK(mouth.was_closed());
  CHECK(net_test::eventually([&] { return world[1].service->rejections() == 1; }));
  CHECK(contains(world[1].service->last_rejection(), "rank 0 sent a payload of 65 where 64 was expected"));
  CHECK(holds(memory, pattern(64, 1)));
  must(world[2].origin->put(1, 1, one(inside), pattern(64, 2).data(), nullptr, soon()));
  must(world[2].origin->flush(1, soon()));
  CHECK(holds(memory, pattern(64, 2)));
}

TEST(strangers_and_doubles_are_refused) {
  World world(3);
  WindowMemory& memory = world[1].open(1, 8);
  const auto dial = [&](const net::Introduction& who, int64_t patience) {
    return net_test::dial_and_wait(who, world.addresses()[1], 0, {}, Deadline::after(patience)).status();
  };
  CHECK(dial({window_topic(kTopic, 1), net_test::bytes16(3), 0, 1}, 2 * kMoment).code() == Code::kTimeout);
  CHECK(contains(dial({window_topic(kTopic, 1), kKey, 7, 1}, kPatience).message(), "another rank"));
  CHECK(contains(dial({window_topic(kTopic, 1), kKey, 1, 1}, kPatience).message(), "another rank"));
  must(world[0].origin->signal(1, 1, {}, soon()));
  CHECK(contains(dial({window_topic(kTopic, 1), kKey, 0, 1}, kPatience).message(), "refused"));
  must(world[0].origin->signal(1, 1, {0, SignalChange::kSet, 5}, soon()));
  must(world[0].origin->flush(1, soon()));
  CHECK_EQ(memory.layout.signal(memory.block, 0, 0).load(), 5);
}

TEST(who_does_not_read_holds_up_nobody) {
  constexpr size_t kBytes = 3 << 20;
  World world(3, kNarrow);
  WindowMemory& memory = world[1].open(1, kBytes);
  const auto data = large_pattern(kBytes, 4);
  std::memcpy(memory.data, data.data(), kBytes);
  Mouth mouth(world, 0, 1);
  const WindowPiece all{0, kBytes}, few{0, 1000};
  for (int i = 0; i < 3; ++i) mouth.ask(WindowRequestKind::kGet, kAnswered, one(all), 0);
  std::vector<std::byte> back(1000);
  for (int i = 0; i < 200; ++i) must(world[2].origin->get(1, 1, one(few), back.data(), soon()));
  CHECK(std::ranges::equal(back, std::span(data).first(1000)));
  for (int i = 0; i < 3; ++i) {
    std::vector<std::byte> all_of_it;
    for (WindowAnswer answer{}; verdict_of(answer) != WindowVerdict::kDone;) {
      answer = mouth.hear_answer();
      const size_t before = all_of_it.size();
      all_of_it.resize(before + answer.bytes);
      mouth.hear(all_of_it.data() + before, answer.bytes);
    }
    CHECK(all_of_it == data);
  }
}

// A client that keeps the service busy does not starve another one.
TEST(a_busy_client_leaves_others_their_turn) {
  constexpr size_t kBytes = 4 << 20;
  World world(3);
  world[1].open(1, kBytes);
  std::atomic<bool> enough{false}, failed{false};
  std::thread busy([&] {
    const WindowPiece all{0, kBytes};
    const auto data = large_pattern(kBytes, 4);
    while (!enough) {
      if (!world[0].origin->put(1, 1, one(all), data.data(), nullptr, soon()).is_ok()) failed = true;
    }
  });
  const WindowPiece slot{0, 0};
  for (int i = 0; i < 200; ++i) must(world[2].origin->get(1, 1, one(slot), nullptr, soon()));
  enough = true;
  busy.join();
  CHECK(!failed);
}

TEST(a_window_that_is_closed_amid_a_put) {
  World world(2);
  const std::shared_ptr<WindowMemory> kept = (world[1].open(1, 1 << 20), world[1].find(1));
  Mouth mouth(world, 0, 1);
  const WindowPiece all{0, kept->bytes};
  const auto data = large_pattern(kept->bytes, 3);
  mouth.ask(WindowRequestKind::kPut, kAnswered, one(all), data.size());
  mouth.say(data.data(), data.size() / 2);
  // The test, the rank, and the service that is amid it.
  CHECK(net_test::eventually([&] { return kept.use_count() == 3; }));
  world[1].close(1);
  const std::vector<std::byte> before(kept->data, kept->data + kept->bytes);
  mouth.say(data.data() + data.size() / 2, data.size() / 2);
  CHECK(verdict_of(mouth.hear_answer()) == WindowVerdict::kClosed);
  CHECK(holds(*kept, before));
  // The connection goes on.
  mouth.ask(WindowRequestKind::kSignal, kAnswered, {}, 0);
  CHECK(verdict_of(mouth.hear_answer()) == WindowVerdict::kClosed);
}

TEST(a_window_that_is_closed_amid_a_get) {
  constexpr size_t kBytes = 8 << 20;
  World world(2, kNarrow);
  world[1].open(1, kBytes);
  Mouth mouth(world, 0, 1);
  const WindowPiece all{0, kBytes};
  mouth.ask(WindowRequestKind::kGet, kAnswered, one(all), 0);
  WindowAnswer answer = mouth.hear_answer();
  world[1].close(1);
  std::vector<std::byte> data;
  size_t total = 0;
  for (; verdict_of(answer) == WindowVerdict::kPart; answer = mouth.hear_answer()) {
    data.resize(answer.bytes);
    mouth.hear(data.data(), data.size());
    total += data.size();
  }
  CHECK(verdict_of(answer) == WindowVerdict::kClosed);
  CHECK(total < kBytes);
}

TEST(a_late_answer_is_skipped) {
  World world(2);
  WindowMemory& memory = world[1].open(1, 100'000);
  std::memcpy(memory.data, pattern(memory.bytes, 8).data(), memory.bytes);
  const WindowPiece all{0, memory.bytes}, few{1000, 1000};
  std::vector<std::byte> late(memory.bytes), back(1000);
  {
    const Held held(world[1]);
    const Status status = world[0].origin->get(1, 1, one(all), late.data(), Deadline::after(kMoment));
    CHECK(status.code() == Code::kTimeout);
    CHECK(contains(status.message(), "rank 1"));
  }
  must(world[0].origin->get(1, 1, one(few), back.data(), soon()));
  CHECK(std::memcmp(back.data(), memory.data + 1000, 1000) == 0);
  CHECK(late == std::vector<std::byte>(memory.bytes));
}

TEST(a_request_that_is_cut_off_ends_the_connection) {
  World world(2, kNarrow);
  world[1].open(1, 8 << 20);
  const auto data = large_pattern(8 << 20, 8);
  const WindowPiece all{0, data.size()}, few{0, 8};
  {
    const Held held(world[1]);
    const Status status = world[0].origin->put(1, 1, one(all), data.data(), nullptr, Deadline::after(4 * kMoment));
    CHECK(status.code() == Code::kTimeout);
  }
  const Status later = world[0].origin->put(1, 1, one(few), data.data(), nullptr, soon());
  CHECK(later.code() == Code::kPeerFailure);
  CHECK(contains(later.message(), "rank 1"));
}

TEST(trouble_ends_a_wait) {
  World world(2);
  world[1].open(1, 8);
  const WindowPiece cell{0, 8};
  std::vector<std::byte> back(8);
  must(world[0].origin->get(1, 1, one(cell), back.data(), soon()));
  const Held held(world[1]);
  Status status;
  std::thread waiting([&] { status = world[0].origin->get(1, 1, one(cell), back.data(), soon()); });
  CHECK(net_test::eventually([&] { return world[1].is_met.load(); }));
  world[0].set_trouble(1, {Code::kCancelled, "interrupted"});
  waiting.join();
  CHECK(status.code() == Code::kCancelled);
  CHECK_EQ(status.message(), "interrupted");
}

TEST(stopping_a_busy_service) {
  constexpr int kClients = 3;
  World world(kClients + 1);
  world[0].open(1, 1 << 20);
  std::atomic<int> working{0};
  std::vector<Status> ends(kClients);
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&, i] {
      const WindowPiece all{0, 1 << 20};
      std::vector<std::byte> data(1 << 20);
      for (bool first = true;; first = false) {
        Status& status = ends[static_cast<size_t>(i)];
        WindowOrigin& origin = *world[i + 1].origin;
        status = i == 0 ? origin.put(0, 1, one(all), data.data(), nullptr, soon())
                        : origin.get(0, 1, one(all), data.data(), soon());
        if (!status.is_ok()) return;
        working += first;
      }
    });
  }
  CHECK(net_test::eventually([&] { return working == kClients; }));
  CHECK(world[0].service->stop(soon()));
  for (std::thread& thread : threads) thread.join();
  for (const Status& end : ends) {
    CHECK(end.code() == Code::kPeerFailure);
    CHECK(contains(end.message(), "rank 0"));
  }
  CHECK_EQ(world[0].service->connections(), 0);
  CHECK(world[0].service->wait_until_unused(1, soon()));
}

TEST(a_peer_that_has_gone_is_named) {
  World world(2);
  world[1].service.reset();
  const WindowPiece cell{0, 0};
  const Status status = world[0].origin->get(1, 1, one(cell), nullptr, soon());
  CHECK(status.code() == Code::kPeerFailure);
  CHECK(contains(status.message(), "rank 1"));
  must(world[0].origin->flush(1, soon()));  // nothing was asked of it
}

TEST(in_a_forked_child_it_is_dead) {
  World world(2);
  world[1].open(1, 8);
  const WindowPiece cell{0, 8};
  std::vector<std::byte> back(8);
  must(world[0].origin->get(1, 1, one(cell), back.data(), soon()));
  const pid_t child = fork();
  if (child == 0) {
    const bool refused = world[0].origin->get(1, 1, one(cell), back.data(), soon()).code() == Code::kInvalidState &&
                         world[0].origin->lock(1, 1, false, nullptr, soon()).code() == Code::kInvalidState &&
                         world[0].origin->stop(soon()) && world[1].service->stop(soon()) &&
                         world[1].service->wait_until_unused(1, soon());
    world[1].service.reset();
    _exit(refused ? 0 : 1);
  }
  int how = -1;
  CHECK_EQ(waitpid(child, &how, 0), child);
  CHECK_EQ(how, 0);
  must(world[0].origin->get(1, 1, one(cell), back.data(), soon()));
}

CHECK_MAIN()
