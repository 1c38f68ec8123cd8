// What a data set holds, for `check` and `init`.
#pragma once

#include <string>
#include <vector>

#include "agent/data/options.h"

namespace starling {

struct DataSurvey {
  std::vector<std::string> lines;  // for people: what was found, then each part
  std::string model;               // settings that fit, as fitting_model() writes them
  std::vector<int64_t> shape;      // of a sample
  bool has_test = false;           // data to judge a model by
  std::string remark;              // what may be wrong with the labels, with the remedy; empty: nothing

  bool is_text() const { return shape[0] == 1 && shape[1] == 1; }
};

// A model for samples of a shape, in the syntax of a config: "{kind: mlp, input: [1, 8, 8], classes: 10, ...}".
std::string fitting_model(const std::vector<int64_t>& shape, int64_t classes);

// `path`: as agent.data.path. Opens both parts and reads all labels; with `whole` each pixel too, one sample at a time.
// `model`: what the samples must fit; null: they may be anything. Throws as load_data().
DataSurvey survey_data(const std::string& path, const SampleSpec* model, bool whole);

}  // namespace starling
