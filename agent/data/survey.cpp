#include "agent/data/survey.h"

#include <algorithm>

#include "agent/data/dataset.h"
#include "agent/data/file.h"
#include "agent/data/source.h"

namespace starling {
namespace {

constexpr const char* kTest = "test";
constexpr size_t kNamesShown = 20;

std::string print_counts(const std::vector<uint8_t>& labels) {
  std::vector<size_t> counts(256);
  for (const uint8_t label : labels) ++counts[label];
  std::erase(counts, 0u);
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  return std::to_string(counts.size()) + " labels, " + std::to_string(*least) +
         (*least == *most ? "" : " to " + std::to_string(*most)) + " of each";
}

std::string print_names(const std::vector<std::string>& classes) {
  std::string text;
  for (size_t i = 0; i < std::min(classes.size(), kNamesShown); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(i) + " " + classes[i];
  }
  return classes.size() > kNamesShown ? text + ", ..." : text;
}

class Surveyor {
 public:
  Surveyor(const SampleSpec* model, bool whole) : model_(model), whole_(whole) {}

  void look_at(const std::string& name, const OpenPart& open) {
    if (!open) {
      survey_.lines.push_back(name + ": none; agent.data.hold_out: 0.1 judges the model by a tenth of the samples");
      return;
    }
    const SampleSource source = open_part(open, model_);
    if (!survey_.shape.empty() && survey_.shape != source.shape) {
      refuse_file(source.place,
                  "samples of " + print_shape(source.shape) + ", and the other part has " + print_shape(survey_.shape),
                  "use two parts of one data set");
    }
    if (survey_.shape.empty() && !source.classes.empty()) {
      survey_.lines.push_back("classes: " + print_names(source.classes));
    }
    survey_.has_test = name == kTest;
    survey_.shape = source.shape;
    classes_ = std::max(classes_, classes_of(source));
    const std::string counts = survey_.is_text() ? "" : ", " + print_counts(source.labels);
    survey_.lines.push_back(name + ": " + std::to_string(source.labels.size()) + " samples of " +
                            print_shape(source.shape) + counts);
    const auto least = std::min_element(source.labels.begin(), source.labels.end());
    if (name != kTest && !survey_.is_text() && source.classes.empty() && *least > 0) {
      survey_.remark = "no sample has label 0, but a model counts its classes from 0: subtract " +
                       std::to_string(*least) + " from each label, unless other members have the labels below";
      survey_.lines.push_back(survey_.remark);
    }
    if (whole_) source.read(all_indices(source), [](size_t, const uint8_t*) {});
  }

  DataSurvey take(const std::string& found) {
    survey_.model = fitting_model(survey_.shape, survey_.is_text() ? 256 : classes_);
    survey_.lines.insert(survey_.lines.begin(), found);
    return survey_;
  }

 private:
  const SampleSpec* const model_;
  const bool whole_;
  DataSurvey survey_;
  int64_t classes_ = 0;
};

}  // namespace

DataSurvey survey_data(const std::string& path, const SampleSpec* model, bool whole) {
  Surveyor surveyor(model, whole);
  if (path == "generated") {
    const auto draw = [&path](uint32_t count, uint64_t stream) -> OpenPart {
      return [=, &path](const SampleSpec*) {
        const Dataset digits = draw_digits(count, 1, stream);
        return SampleSource{path, digits.shape, digits.labels, {}, [](const auto&, const auto&) {}};
      };
    };
    surveyor.look_at("train", draw(kGeneratedTrainCount, 0));
    surveyor.look_at(kTest, draw(kGeneratedTestCount, 1));
    return surveyor.take("digits that the program draws");
  }
  const FoundData found = find_data(path);
  surveyor.look_at("train", found.train);
  surveyor.look_at(kTest, found.test);
  return surveyor.take(found.format + (path.starts_with(found.place) ? "" : ", " + found.place));
}

}  // namespace starling
