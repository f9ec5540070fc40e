"""`UncertaintyPipeline`: texts in, predictions with calibrated confidence out."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

from knn_ue.answers import AnswerList, AnyAnswer, Explanation, SentenceExplanation
from knn_ue.data.columns import ColumnNames, Columns
from knn_ue.decisions import Decision, SetMethod, Unit, promised, warn_of_abstention
from knn_ue.encoding import Encoder, EncodingNames, EncodingOptions
from knn_ue.encoding.given import GivenAnswers
from knn_ue.encoding.given_spans import GivenSpans
from knn_ue.errors import InvalidInputError
from knn_ue.evaluation import TEST, Evaluation, SampleWeight, evaluate
from knn_ue.familiarity import FALSE_ALARM_RATE
from knn_ue.methods import check_outputs, chosen_options, encoder_for
from knn_ue.pipeline.adjusting import Adjustable
from knn_ue.pipeline.answered import fit_answers, fit_given_spans
from knn_ue.pipeline.answers import check_explains, explain_outputs, measurable
from knn_ue.pipeline.domains import Asked, answer_stream, calibrator_of, scale_of
from knn_ue.pipeline.evaluating import compared, read_sets
from knn_ue.pipeline.fitted import Fitted
from knn_ue.pipeline.fitting import FitOptions, fit_rows
from knn_ue.pipeline.folder import OpenedFolder, load_pipeline, save_changes, save_pipeline
from knn_ue.pipeline.rows import Rows, input_examples, iter_examples
from knn_ue.progress import as_progress
from knn_ue.stores import IndexOptions
from knn_ue.tasks import TASKS, Task, task_name
from knn_ue.types import Outputs, Progress
from knn_ue.verifying import OTHER, Reader

if TYPE_CHECKING:
    from knn_ue.encoding.causal import PromptOptions
    from knn_ue.encoding.prompts import Messages


class UncertaintyPipeline(Adjustable):
    """A classifier or tagger with calibrated confidence, made of an `Encoder` and what was fitted on its outputs.

    Rows are records of `knn_ue.data`, dicts, labeled tuples (see `knn_ue.pipeline.rows`), or the name of a file or
    source that `knn_ue.data.read_rows` reads. A Hugging Face model needs the extra [hf]::

        pipe = UncertaintyPipeline.from_pretrained("model")
        pipe.fit("train.jsonl", "validation.jsonl")
        (answer,) = pipe("a text")
        answer.label, answer.score, answer.raw_score, answer.neighbors  # "pos", 0.81, 0.99, (...)
        pipe.save("ue")
    """

    def __init__(self, encoder: Encoder, fitted: Fitted | None = None) -> None:
        self.encoder = encoder
        # By the user; a method may need other ones.
        self._user_options = encoder.options if fitted is None else chosen_options(encoder.options, fitted.method)
        if fitted is not None:
            self.fitted_ = fitted
        self._opened: OpenedFolder | None = None
        self._saved: Fitted | None = None  # what the folder held when it was opened
        self._reader: str | Reader = "auto"  # of the verifier

    @classmethod
    def from_pretrained(
        cls,
        path: str | Path,
        task: str | None = None,
        *,
        device: str = "auto",
        trust_remote_code: bool = False,
        **options: Unpack[EncodingNames],
    ) -> Self:
        """Load a fine-tuned model from a folder or the hub; see `EncodingOptions` for what the options mean.

        The `task` ("text", "pair", "ner", or their full names) is inferred from the model. A model for pairs that
        `knn-ue train` did not make needs task="pair": its architecture is that of a model for texts.
        """
        from knn_ue.encoding.huggingface import HuggingFaceEncoder

        options.setdefault("views", True)  # familiarity needs them
        encoder = HuggingFaceEncoder.from_pretrained(
            path, task, device=device, trust_remote_code=trust_remote_code, **options
        )
        return cls(encoder)

    @classmethod
    def from_model(
        cls, model: Any, tokenizer: Any = None, task: str | None = None, *, options: EncodingOptions | None = None
    ) -> Self:
        """Use a Hugging Face model that is in memory, with its tokenizer, or a `transformers.pipeline(...)` alone.

        It is used as it is, where it is, in evaluation mode; `save` writes it into the UE folder as safetensors.
        """
        from knn_ue.encoding.huggingface import HuggingFaceEncoder

        chosen = options or EncodingOptions(views=True)
        return cls(HuggingFaceEncoder.from_model(model, tokenizer, task, options=chosen))

    @classmethod
    def from_prompt(
        cls,
        model: Any,
        prompt: "str | Messages",
        labels: Sequence[str] | Mapping[str, str],
        *,
        tokenizer: Any = None,
        device: str = "auto",
        trust_remote_code: bool = False,
        options: "PromptOptions | None" = None,
    ) -> Self:
        """Prompt a language model that was not trained for the task; see `knn_ue.encoding.CausalLMEncoder`.

        `fit` then needs only labeled examples: some to store, some to fit on.
        """
        from knn_ue.encoding.causal import CausalLMEncoder

        return cls(
            CausalLMEncoder(
                model,
                prompt,
                labels,
                tokenizer=tokenizer,
                device=device,
                trust_remote_code=trust_remote_code,
                options=options,
            )
        )

    @classmethod
    def from_answers(
        cls, *, reader: "str | Reader" = "auto", task: str = "text", labels: Sequence[str] | None = None
    ) -> Self:
        """Judge the answers of a model that one cannot open, such as a language model behind an API.

        Rows have the model's `answer`; `fit(rows)` needs 50 and more that also have the right `label`. A small `reader`
        ("auto", "instant", a name of `knn_ue.verifying.READERS`, or an object with `read`) reads the same input.
        `labels` are what an answer should be one of, where the rows may lack some::

            pipe = UncertaintyPipeline.from_answers().fit(rows)  # text, answer, label; optional confidence
            (answer,) = pipe({"text": "where is my money?", "answer": "refund"})
            answer.score, answer.alternatives  # 0.42, {"transfer": 0.35, ...}

        With task="ner" the answers are marked entities (see `knn_ue.marked`), the right ones are `tags` or a `label`
        of the same shape, and the reader is one of words, "minilm" unless another is named::

            pipe = UncertaintyPipeline.from_answers(task="ner").fit(rows)  # tokens, tags, answer=[{"text", "type"}]
            (sentence,) = pipe({"tokens": ["Ada", "wrote"], "answer": [{"text": "Ada", "type": "PER"}]})
            sentence.entities[0].score, sentence.missed
        """
        pipe = cls(GivenSpans(labels or ()) if TASKS[task_name(task)].is_tagging else GivenAnswers(task, labels or ()))
        pipe._reader = reader
        return pipe

    def fit(
        self,
        train_rows: Rows | Outputs,
        validation_rows: Rows | Outputs | None = None,
        *,
        method: str = "knn-ue",
        index: str | IndexOptions = "auto",
        store: str | None = None,
        n_neighbors: int = 32,
        max_stored: int | None = None,
        target_precision: float | None = None,
        target_risk: float | None = None,
        delta: float = 0.1,
        coverage: float | None = None,
        set_method: SetMethod = "lac",
        unit: Unit | None = None,
        decisions: Sequence[Decision] = (),
        false_alarm_rate: float = FALSE_ALARM_RATE,
        robust: bool = False,
        verifier: "str | Reader | None" = None,
        seed: int = 0,
        allow_leakage: bool = False,
        backend: str = "auto",
        progress: Progress | bool | None = None,
        **columns: Unpack[ColumnNames],
    ) -> Self:
        """Store the training examples and fit the calibrator on the validation rows.

        Of `from_answers`, `fit(rows)` takes one set of labeled answers and no method.

        `method` is a name of docs/methods.md. The `n_neighbors` nearest examples are searched with `index`: "auto",
        "exact", a faiss factory string or `IndexOptions`.

        `store` is where the examples are stored, an address such as "milvus://host:19530/name" (see
        `knn_ue.stores.registry`); by default in the UE folder. At an address, the store chooses its own index.

        `max_stored` is the maximum number of examples to store (words, in tagging), balanced across classes.

        Validation rows that are also training rows are refused unless `allow_leakage`.

        Training and validation rows may also be `Outputs` of this pipeline, so that several methods share them;
        mc-dropout needs outputs of a pipeline with `passes`, and mdsn of one with `pooling="pooled"`.
        `columns` gives the names of columns that differ from ours (text="review", label="stars").
        `progress=True` shows bars in a notebook, one line in a terminal, and one line per minute in a log; a function
        is called with "training" or "validation", the number of rows done and the total.
        An answer is `unfamiliar` where its p-value is at most `false_alarm_rate`; see `knn_ue.Familiarity`.

        `backend` "auto" exports the model for ONNX Runtime, twice as fast on a CPU, where its answers to validation
        rows stay the same; "torch" does not, "onnx" fails where it cannot. What was exported is saved with the rest.

        `verifier` is a reader, or the name of one: it learns the labels from training texts and joins the score. "auto"
        uses it where it ranks the validation rows better, cross-fitted. `robust` fits on perturbed copies of the
        validation rows too: lower scores, see docs/adapting.md.

        With `target_precision` or other `decisions` (see `knn_ue.decisions`) the validation rows are split in halves at
        random (by `seed`; whole sentences in tagging): one fits the calibrator, the other fits the decisions.
        `target_precision` chooses the threshold below which answers become abstentions, so that with probability
        1 - `delta` at least that share of the answers given are right; `target_risk` is its complement, `promises` say
        what is promised. This holds in domain only, and only if the validation rows did not stop the training early. In
        tagging an answer is an entity; entities the model misses are not counted. Where nothing can be promised, a
        warning says what could, and every answer is an abstention unless `abstain_below` is given. With `coverage` an
        answer's `set` holds the right label that often, by the `set_method` lac, aps, raps or class. With
        `unit="document"` rows of one `document` (a field of each row) are not taken as independent.
        """
        if coverage is not None and (TASKS[self.task].is_tagging or unit is not None):
            raise InvalidInputError(
                "coverage is for texts and pairs whose rows are independent: leave it out in tagging and with unit"
            )
        promises = promised(target_precision, target_risk, delta, coverage, set_method)
        if self.encoder.gives_answers:
            if validation_rows is not None:
                raise InvalidInputError("answers are fitted on one set of labeled rows, got two: pass fit(rows)")
            self._fit_answers(train_rows, (*promises, *decisions), Columns(**columns), seed, unit, false_alarm_rate)
            return self
        if validation_rows is None:
            raise InvalidInputError("fit needs training and validation rows, got one set: pass fit(train, validation)")
        options = FitOptions(
            method=method,
            index=index,
            store=store,
            n_neighbors=n_neighbors,
            max_stored=max_stored,
            decisions=(*promises, *decisions),
            false_alarm_rate=false_alarm_rate,
            robust=robust,
            verifier=verifier,
            seed=seed,
            unit=unit,
            allow_leakage=allow_leakage,
            backend=backend,
        )
        encoder = encoder_for(self.encoder, self._user_options, method)
        if isinstance(train_rows, Outputs) or isinstance(validation_rows, Outputs):
            check_outputs(self.encoder.options, encoder.options, method)
        self.encoder, self.fitted_ = fit_rows(
            encoder, train_rows, validation_rows, options, as_progress(progress), Columns(**columns)
        )
        self._opened = None
        warn_of_abstention(self.fitted_.threshold)
        return self

    def _fit_answers(
        self,
        rows: Rows | Outputs,
        decisions: Sequence[Decision],
        columns: Columns,
        seed: int,
        unit: Unit | None,
        false_alarm_rate: float,
    ) -> None:
        if isinstance(rows, Outputs):
            raise InvalidInputError("answers are fitted on rows with text, answer and label, got Outputs: pass rows")
        how: dict[str, Any] = {"reader": self._reader, "decisions": decisions, "columns": columns, "seed": seed}
        how |= {"unit": unit}
        if TASKS[self.task].is_tagging:
            self.encoder, self.fitted_ = fit_given_spans(rows, **how)
        else:
            labels = [name for name in self.class_names if name != OTHER]
            how |= {"labels": labels, "false_alarm_rate": false_alarm_rate}
            self.encoder, self.fitted_ = fit_answers(self.task, rows, **how)
        self._user_options, self._opened = self.encoder.options, None
        warn_of_abstention(self.fitted_.threshold)

    def __call__(
        self,
        inputs: object,
        *,
        abstain_below: float | None = None,
        top: int = 5,
        top_k: int | None = None,
        domain: str | None = None,
        suggest: bool = False,
        **columns: Unpack[ColumnNames],
    ) -> list[AnyAnswer]:
        """Return an answer for each input; a string, dict, record or tuple is one input, a list holds many.

        A DataFrame or a `datasets.Dataset` holds many too; name its `columns` where they differ from ours:
        `pipe(frame, text="review")`. With `top_k` each answer has the `probabilities` of that many labels.

        Texts and pairs give `Answer`, tagged sentences `SentenceAnswer`; see `knn_ue.answers` for their fields.
        `to_dict()` is the JSON that the command line and the server give. `neighbors` are the `top` nearest training
        examples, none where the method has no store.

        A score below `abstain_below`, or without it what the fitted decisions withhold, is an abstention: `abstained`
        is True, the label, tag or type is None, and `would_be` is what it would have been. In tagging entities abstain,
        with all their words; where tags are not IOB2, words do. Scores are those of the `domain` (see `adapt`), or of
        the one that an input names itself. With `suggest` a given answer has the label `suggested` in its place, where
        the verifier finds that likelier.
        """
        examples = input_examples(inputs, self.task, Columns(**columns), words_of=self.encoder.words_of)
        asked = Asked(abstain_below=abstain_below, top=top, top_k=top_k, domain=domain, suggest=suggest)
        return AnswerList(answer_stream(examples, self.encoder, self._ready(), asked))

    def predict_stream(
        self,
        rows: Rows,
        *,
        abstain_below: float | None = None,
        top: int = 5,
        top_k: int | None = None,
        domain: str | None = None,
        suggest: bool = False,
        **columns: Unpack[ColumnNames],
    ) -> Iterator[AnyAnswer]:
        """Yield the answer to each row of a file, source or iterable, in order; memory does not grow with it."""
        named = Columns(**columns)
        examples = iter_examples(rows, self.task, labeled=False, columns=named, words_of=self.encoder.words_of)
        asked = Asked(abstain_below=abstain_below, top=top, top_k=top_k, domain=domain, suggest=suggest)
        return answer_stream(examples, self.encoder, self._ready(), asked)

    def outputs(
        self,
        rows: Rows | Outputs,
        *,
        with_labels: bool = True,
        progress: Progress | bool | None = None,
        **columns: Unpack[ColumnNames],
    ) -> Outputs:
        """Return the model's outputs for the rows, with labels if they have them; `Outputs` are passed on."""
        if isinstance(rows, Outputs):
            return rows
        named, words_of = Columns(**columns), self.encoder.words_of
        examples = list(iter_examples(rows, self.task, labeled=with_labels, columns=named, words_of=words_of))
        shown = as_progress(progress)
        return self.encoder.encode(examples, with_labels=with_labels, progress=shown and partial(shown, "test"))

    def evaluate(
        self,
        rows: Rows | Outputs,
        out_of_domain: Rows | Outputs | Mapping[str, Rows | Outputs] | None = None,
        *,
        n_bins: int = 10,
        n_bootstrap: int = 0,
        level: float = 0.95,
        seed: int = 0,
        domain: str | None = None,
        sample_weight: SampleWeight | None = None,
        **columns: Unpack[ColumnNames],
    ) -> Evaluation:
        """Return every metric on labeled rows, the method beside the raw model; see `knn_ue.evaluate`.

        `n_bootstrap=200` adds intervals. With a `domain`, its scores are measured. Rows count by their field
        `sample_weight`, if they have one, or by `sample_weight`, if given. PIECE is by proximity to validation rows.

        An out-of-domain set in which every row has a label that the model knows is measured too; for any other one only
        OOD metrics are reported.
        """
        calibrator = calibrator_of(self._ready(), domain)
        others = out_of_domain if isinstance(out_of_domain, Mapping) else {"out_of_domain": out_of_domain}
        named = {name: found for name, found in others.items() if found is not None}
        sets = read_sets(self.encoder, rows, named, Columns(**columns)).encode(self.encoder)
        weights = sample_weight if isinstance(sample_weight, Mapping) else {TEST: sample_weight}
        return evaluate(
            compared(calibrator, self.method_),
            sets.test,
            out_of_domain=sets.out_of_domain or None,
            n_bins=n_bins,
            n_bootstrap=n_bootstrap,
            level=level,
            seed=seed,
            familiarity=measurable(self.familiarity_, sets.test, *sets.out_of_domain.values()),
            sample_weight={**sets.sample_weight, **{name: x for name, x in weights.items() if x is not None}},
            validation=self.validation_,
        )

    def explain(
        self, inputs: object, *, top: int = 5, domain: str | None = None
    ) -> list[Explanation] | list[SentenceExplanation]:
        """Return the reasons for the score of each input (in tagging, of each word); for kNN-UE only.

        With knn-ue-entity: one record per sentence, with its entities, the reasons for each, and what was missed.
        """
        calibrator = calibrator_of(self._ready(), domain)
        check_explains(calibrator, self.method_)
        examples = list(input_examples(inputs, self.task, words_of=self.encoder.words_of))
        outputs = self.encoder.encode(examples, with_labels=False)
        adapted_to = scale_of(self._ready(), domain)
        return explain_outputs(examples, outputs, calibrator, self.familiarity_, top=top, adapted_to=adapted_to)

    def save(self, path: str | Path) -> None:
        """Write one UE folder in one step: options, calibrator, validation outputs, threshold, and the model.

        The files of a model loaded from a folder are copied, large ones by hard link where the disk allows it, so that
        the UE folder may be moved. A model from the hub is recorded by name. To the folder that it was loaded from,
        only what was changed is written; what other processes changed stays.
        """
        fitted, opened = self._ready(), self._opened
        if opened is not None and self._saved is not None and opened.path.resolve() == Path(path).resolve():
            save_changes(opened, self._saved, fitted)
            self.fitted_ = self._saved = opened.fitted
            return
        save_pipeline(path, self.encoder, fitted, opened)

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto", trust_remote_code: bool = False) -> Self:
        """Open a UE folder that `save` wrote, after verifying its files."""
        encoder, opened = load_pipeline(path, device=device, trust_remote_code=trust_remote_code)
        return cls.of_folder(encoder, opened)

    @classmethod
    def of_folder(cls, encoder: Encoder, opened: OpenedFolder) -> Self:
        """Return the pipeline in a folder that is open, with its encoder."""
        pipe = cls(encoder, opened.fitted)
        pipe._opened, pipe._saved = opened, opened.fitted
        return pipe

    @property
    def opened(self) -> OpenedFolder:
        """The folder it was loaded from, open: examples added to its stores, or edits, are in it at once."""
        if self._opened is None:
            raise InvalidInputError("this pipeline was not loaded from a folder: save it and load it")
        return self._opened

    def reloaded(self, path: str | Path, *, device: str = "auto", trust_remote_code: bool = False) -> Self:
        """Open a UE folder as `load` does, but keep the model in memory where the folder holds the same one."""
        opened = OpenedFolder.open(path)
        if not opened.encoder_part.is_same(self.encoder.to_part()):
            return self.load(opened.path, device=device, trust_remote_code=trust_remote_code)
        pipe = self.of_folder(self.encoder, opened)
        pipe._user_options = self._user_options
        return pipe

    @property
    def task(self) -> Task:
        """What the model does: "text-classification", "text-pair" or "token-classification"."""
        return self.encoder.task

    @property
    def class_names(self) -> tuple[str, ...]:
        """The labels the model knows, in the order of its logits."""
        return self.encoder.class_names
