// Locks of windows over TCP: who gets them, who waits how long, and what becomes of them when their holder dies or gives up.

#include "windows_world.h"

using namespace windows_test;

namespace {

constexpr int64_t kMoment = 30 * pycomms::kMillisecond;

bool is_free(const WindowMemory& memory) {
  WindowLockAttempt attempt(memory, 0, false, [](int) { return false; });
  const bool got = attempt.try_now();
  if (got) {
    CHECK(unlock(memory, 0, false));
  } else {
    attempt.give_up();
  }
  return got;
}

}  // namespace

// With the owner itself among them, who maps the memory.
TEST(whoever_has_it_alone_is_alone) {
  constexpr int kRanks = 4;
  constexpr int64_t kRounds = 60;
  World world(kRanks);
  WindowMemory& memory = world[0].open(1, 8);
  const WindowPiece cell{0, 8};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int rank = 1; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      WindowOrigin& origin = *world[rank].origin;
      for (int64_t i = 0; i < kRounds; ++i) {
        int64_t value = 0;
        auto* const bytes = reinterpret_cast<std::byte*>(&value);
        bool ok = origin.lock(0, 1, false, nullptr, soon()).is_ok();
        ok = ok && origin.get(0, 1, {&cell, 1}, bytes, soon()).is_ok();
        ++value;
        ok = ok && origin.put(0, 1, {&cell, 1}, bytes, nullptr, soon()).is_ok();
        ok = ok && origin.unlock(0, 1, false, soon()).is_ok();
        wrong += !ok;
      }
    });
  }
  for (int64_t i = 0; i < kRounds; ++i) {
    WindowLockAttempt attempt(memory, 0, false, [](int) { return false; });
    CHECK(net_test::eventually([&] { return attempt.try_now(); }));
    int64_t value = 0;
    get_piece(memory, cell, reinterpret_cast<std::byte*>(&value));
    ++value;
    put_piece(memory, cell, reinterpret_cast<std::byte*>(&value));
    CHECK(unlock(memory, 0, false));
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(wrong.load(), 0);
  CHECK_EQ(elements_of<int64_t>(memory)[0], kRanks * kRounds);
}

TEST(those_who_share_it_have_it_together) {
  World world(4);
  WindowMemory& memory = world[0].open(1, 8);
  must(world[1].origin->lock(0, 1, true, nullptr, soon()));
  must(world[2].origin->lock(0, 1, true, nullptr, soon()));
  const Status late = world[3].origin->lock(0, 1, false, nullptr, Deadline::after(kMoment));
  CHECK(late.code() == Code::kTimeout);
  must(world[1].origin->unlock(0, 1, true, soon()));
  must(world[2].origin->unlock(0, 1, true, soon()));
  must(world[3].origin->lock(0, 1, false, nullptr, soon()));
  CHECK(!is_free(memory));
  must(world[3].origin->unlock(0, 1, false, soon()));
  CHECK(is_free(memory));
}

TEST(who_waits_in_vain_is_told_who_has_it) {
  World world(3);
  WindowMemory& memory = world[0].open(1, 8);
  must(world[1].origin->lock(0, 1, false, nullptr, soon()));
  // On a machine that is busy the answer may come too late: then there is only our own clock to go by.
  Status late;
  CHECK(net_test::eventually([&] {
    late = world[2].origin->lock(0, 1, false, nullptr, Deadline::after(10 * kMoment));
    CHECK(late.code() == Code::kTimeout);
    return late.message() == "waited in vain for the lock of window 1 of rank 0, which rank 1 holds";
  }));
  must(world[1].origin->unlock(0, 1, false, soon()));
  CHECK(is_free(memory));
  const Status twice = world[1].origin->unlock(0, 1, false, soon());
  CHECK(twice.code() == Code::kInvalidArgument);
  CHECK_EQ(twice.message(), "window 1 of rank 0: this rank does not hold the lock alone");
}

TEST(the_lock_of_a_dead_rank_is_broken) {
  World world(4);
  world[0].open(1, 8);
  for (const bool shared : {false, true}) {
    const int dying = shared ? 2 : 1;
    int broken = -2;
    must(world[dying].origin->lock(0, 1, shared, &broken, soon()));
    CHECK_EQ(broken, -1);
    Status status;
    std::thread waiting([&] { status = world[3].origin->lock(0, 1, false, &broken, soon()); });
    world[dying].origin.reset();
    world.say_dead(dying);
    waiting.join();
    must(status);
    CHECK_EQ(broken, dying);
    must(world[3].origin->unlock(0, 1, false, soon()));
  }
}

// Its other threads may do what the lock's holder waits for.
TEST(who_waits_for_a_lock_holds_up_nobody) {
  World world(3);
  WindowMemory& memory = world[0].open(1, 8);
  must(world[1].origin->lock(0, 1, false, nullptr, soon()));
  std::atomic<bool> got{false};
  Status status;
  std::thread waiting([&] {
    status = world[2].origin->lock(0, 1, false, nullptr, soon());
    got = true;
  });
  const WindowPiece cell{0, 8};
  const int64_t add = 1;
  for (int64_t i = 0; i < 100; ++i) {
    int64_t old = -1;
    must(world[2].origin->update(0, 1, {&cell, 1}, nccl_abi::kInt64, WindowOp::kSum,
                                 reinterpret_cast<const std::byte*>(&add), reinterpret_cast<std::byte*>(&old), soon()));
    CHECK_EQ(old, i);
  }
  CHECK(!got);
  must(world[1].origin->unlock(0, 1, false, soon()));
  waiting.join();
  must(status);
  must(world[2].origin->unlock(0, 1, false, soon()));
  CHECK(is_free(memory));
}

// Some get it in the moment in which they stop waiting: it must not stay with them.
TEST(a_lock_that_is_not_waited_for_any_more_is_not_kept) {
  constexpr int kRanks = 4;
  World world(kRanks);
  WindowMemory& memory = world[0].open(1, 8);
  for (int rank = 1; rank < kRanks; ++rank) must(world[rank].origin->signal(0, 1, {}, soon()));  // connected
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int rank = 1; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      for (int64_t i = 0; i < 150; ++i) {
        const auto brief = Deadline::after((20 + i * 37 % 400) * pycomms::kMicrosecond);
        if (!world[rank].origin->lock(0, 1, i % 3 == 0, nullptr, brief).is_ok()) continue;
        wrong += !world[rank].origin->unlock(0, 1, i % 3 == 0, soon()).is_ok();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(wrong.load(), 0);
  CHECK(net_test::eventually([&] { return is_free(memory); }));
}

TEST(who_waits_for_the_lock_of_a_window_that_is_closed_is_told) {
  World world(3);
  world[0].open(1, 8);
  must(world[1].origin->lock(0, 1, false, nullptr, soon()));
  Status status;
  std::thread waiting([&] { status = world[2].origin->lock(0, 1, false, nullptr, soon()); });
  world[0].close(1);
  waiting.join();
  CHECK(status.code() == Code::kPeerFailure);
  CHECK_EQ(status.message(), "rank 0 has closed the window");
}

TEST(stopping_ends_the_wait_for_a_lock) {
  World world(3);
  WindowMemory& memory = world[0].open(1, 8);
  must(world[1].origin->lock(0, 1, false, nullptr, soon()));
  Status status;
  std::atomic<bool> begun{false};
  std::thread waiting([&] {
    begun = true;
    status = world[2].origin->lock(0, 1, false, nullptr, soon());
  });
  CHECK(net_test::eventually([&] { return begun.load(); }));
  CHECK(world[2].origin->stop(soon()));
  waiting.join();
  CHECK(status.code() == Code::kInvalidState);
  world[2].origin.reset();
  must(world[1].origin->unlock(0, 1, false, soon()));
  CHECK(net_test::eventually([&] { return is_free(memory); }));
}

TEST(a_lock_that_somebody_broke_in_vain_is_told_to_the_next_holder) {
  const auto memory = make_memory(4, 8);
  bool is_over = false;
  const auto attempt = [&](int rank, bool shared) {
    return WindowLockAttempt(*memory, rank, shared, [&](int who) { return is_over && who == 1; });
  };
  CHECK(attempt(2, true).try_now());
  auto victim = attempt(1, false);
  CHECK(!victim.try_now());  // keeps others out, and waits for rank 2
  is_over = true;
  auto impatient = attempt(0, false);
  CHECK(!impatient.try_now());
  CHECK_EQ(impatient.broken(), 1);
  impatient.give_up();
  CHECK(unlock(*memory, 2, true));
  auto next = attempt(3, false);
  CHECK(next.try_now());
  CHECK_EQ(next.broken(), 1);
  CHECK(unlock(*memory, 3, false));
  auto last = attempt(0, true);
  CHECK(last.try_now());
  CHECK_EQ(last.broken(), -1);
}

CHECK_MAIN()
