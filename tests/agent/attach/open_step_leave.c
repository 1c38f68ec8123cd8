/* open_step_leave FOLDER STEPS [HOST:PORT]: the C API, compiled as C. Each param goes towards a goal; the first program
 * begins a swarm of two, the other joins it, and has its params elsewhere. Prints the address, and in the end how the
 * models agreed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/attach/starling.h"

enum { COUNT = 256, WAIT_MS = 40 };

static float params[COUNT], elsewhere[COUNT];
static float* trained = params;

static int wait_for_turn(starling_swarm* swarm, int answer) {
  while (answer == STARLING_AGAIN || answer == STARLING_STATE_WANTED || answer == STARLING_PARAMS_WANTED) {
    if (answer == STARLING_STATE_WANTED) starling_put_state(swarm, NULL, 0);
    if (answer == STARLING_PARAMS_WANTED) memcpy(params, trained, sizeof params);
    answer = starling_wait(swarm, WAIT_MS);
  }
  if (trained != params && (answer == STARLING_CHANGED || answer == STARLING_RESTORED)) {
    memcpy(trained, params, sizeof params);
  }
  return answer;
}

int main(int count, char** words) {
  char state[600], stop[60], bootstrap[600], text[8000] = "";
  if (count < 3) return 2;
  snprintf(state, sizeof state, "agent.state=%s", words[1]);
  snprintf(stop, sizeof stop, "swarm.stop_after=%s", words[2]);
  snprintf(bootstrap, sizeof bootstrap, "agent.bootstrap=[%s]", count > 3 ? words[3] : "");
  const char* const founder[] = {state, "agent.listen=127.0.0.1:0", "swarm.wait_for=2", "swarm.local_steps=2",
                                 "swarm.exchange.block=64", stop, NULL};
  const char* const joiner[] = {state, "agent.listen=127.0.0.1:0", bootstrap, NULL};
  const int64_t shape[] = {COUNT};
  const starling_tensor tensor = {"weights", shape, 1, 0, 0};
  starling_options options = {.size = sizeof options, .set = count > 3 ? joiner : founder};
  starling_swarm* swarm = NULL;
  options.params = params;
  options.count = COUNT;
  options.tensors = &tensor;
  options.tensor_count = 1;
  options.copied = count > 3;
  if (options.copied) trained = elsewhere;
  if (starling_open(&options, &swarm, text, sizeof text) != STARLING_GO) return fprintf(stderr, "%s\n", text), 1;
  starling_place(swarm, text, sizeof text);
  printf("%s\n", text);
  fflush(stdout);
  int answer = wait_for_turn(swarm, starling_wait(swarm, WAIT_MS));
  while (answer >= STARLING_GO && answer < STARLING_AGAIN) {
    for (int i = 0; i < COUNT; ++i) trained[i] += 0.1f * ((count > 3 ? 3 : 1) - trained[i]);
    answer = wait_for_turn(swarm, starling_step(swarm, 1, 0.5, 0));
  }
  while (answer == STARLING_OVER && starling_finish(swarm, WAIT_MS) == STARLING_AGAIN) continue;
  starling_message(swarm, text, sizeof text);
  starling_now now = {.size = sizeof now};
  starling_look(swarm, &now);
  printf("agreed %d, param %.3f\n", now.agreed, params[0]);
  starling_leave(swarm);
  starling_close(swarm);
  if (answer != STARLING_OVER) fprintf(stderr, "%s\n", text);
  return answer == STARLING_OVER && now.agreed == 1 ? 0 : 1;
}
