"""A new task: a form with a preview, and the upload of its file."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final
from urllib.parse import unquote

from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from minions.domain.errors import Conflict, FieldError, ValidationFailed
from minions.server.actions.preview_input import FirstRows, column_errors
from minions.server.actions.preview_task import (
    Estimate,
    InputPreview,
    estimate_task,
    known_models,
    preview_input,
    preview_pasted,
)
from minions.server.actions.store_upload import StoredUpload, store_upload
from minions.server.actions.submit_task import check_request, submit_task
from minions.server.web.views.new_task import (
    EXAMPLE_UPLOAD,
    LABELS,
    MORE_NAME,
    MOST_PASTED,
    NewTaskForm,
    check_rows,
    errors_of_names,
    in_words_of_the_form,
    others,
    paste_error,
    pasted_rows,
    placed,
    repaired,
    request_of,
    row_parameters,
    sample_rows,
    uri_errors,
)
from minions.server.web.views.same_task import TaskText, same_task
from minions.server.web.visit import Visit, act, page
from minions.wire.tasks import SubmitRequest

_FIELD_BYTES: Final = 8 << 20  # more than may be pasted: what is too long is still read, to be shown again
_FORM_UPLOAD_BYTES: Final = 256 << 20
_CHUNK_BYTES: Final = 1 << 20


def routes() -> list[Route]:
    return [
        page("/tasks/new", new_page),
        act("/tasks/new", new),
        act("/tasks/new/preview", preview_fragment),
        act("/tasks/uploads", upload),
    ]


async def new_page(visit: Visit) -> Response:
    """The empty form, or one that a link fills in."""
    form = NewTaskForm.read({**_teams_default(visit), **dict(visit.request.query_params)})
    return await _form_page(visit, form, None, {})


def _teams_default(visit: Visit) -> dict[str, str]:
    teams = visit.token.teams
    return {"team": teams[0]} if teams and "default" not in teams else {}


async def new(visit: Visit) -> Response:
    """Preview, or start the task. Whatever is wrong, everything typed stays."""
    form, errors = await _read_form(visit)
    look = await _look(visit, form)
    if (too_long := paste_error(form)) is not None:
        errors = [*errors, too_long]
    form = form.taking(look)
    if form["do"] != "start":
        return await _form_page(visit, form, look, placed([*errors, *(look.errors if look else [])], form))
    request, found = request_of(form, _named_inputs(form))
    if request is None or errors or form.source == "lines":  # these are stored only when nothing is wrong
        found = await _all_errors(visit, form, look)
    if request is None or errors or found:
        return await _form_page(visit, form, look, placed([*errors, *others(found, errors, form)], form))
    try:
        return await _start(visit, form, request)
    except ValidationFailed as error:
        return await _form_page(visit, form, look, placed(error.errors, form))
    except Conflict as error:
        return await _form_page(visit, form, look, {"task_name": error.message})


async def _all_errors(visit: Visit, form: NewTaskForm, look: InputPreview | None) -> list[FieldError]:
    """Everything that is wrong, so that nothing more turns up once what is shown is corrected.

    What only a whole request can be asked is asked of one in which the fields that are wrong are set right.
    """
    request, errors = repaired(form, _named_inputs(form))
    if request is None:
        return errors
    found = (await check_request(visit.deployment, visit.token, request)).errors
    if form.source == "lines":
        found = [each for each in found if not each.field.startswith("inputs")]  # they are no upload yet
        if look is not None:
            found += look.errors or column_errors(look.first, request.parameters, look.name)
    return errors + others(found, errors, form)


def _named_inputs(form: NewTaskForm) -> list[str]:
    """The inputs that a request can name before pasted lines are stored."""
    if form.source == "lines":
        return [EXAMPLE_UPLOAD] if form["lines"].strip() else []
    return form.inputs()


async def _start(visit: Visit, form: NewTaskForm, request: SubmitRequest) -> Response:
    if form.source == "lines":
        data = pasted_rows(form["lines"])
        stored = await store_upload(
            visit.deployment, visit.token, "pasted.jsonl", len(data), _once(data), sha256=hashlib.sha256(data).digest()
        )
        request = request.model_copy(update={"inputs": [stored.id]})
    # The page's own key: a second click, or a reload, is the same task and not another one.
    key = f"page-{form['key'][:64]}" if form["key"] else None
    submitted = await submit_task(visit.deployment, visit.token, request, key)
    if submitted.created:
        visit.web.splitter.submitted.set()
    return visit.redirect(f"/tasks/{submitted.task.id}")


async def preview_fragment(visit: Visit) -> Response:
    """What the form's input holds, for the script that asks while one types."""
    form, _ = await _read_form(visit)
    look = await _look(visit, form)
    taking = form.taking(look)
    return visit.fragment("tasks/preview.html", **await _shown(visit, taking, look))


async def upload(visit: Visit) -> Response:
    """A file's bytes, from the script. It tells the upload's id."""
    headers = visit.request.headers
    size = headers.get("content-length", "")
    try:
        stored = await store_upload(
            visit.deployment,
            visit.token,
            unquote(visit.query("filename") or ""),
            int(size) if size.isdecimal() and len(size) < 18 else 0,
            visit.request.stream(),
        )
    except ValidationFailed as error:
        return JSONResponse({"message": error.errors[0].message}, 422)
    return JSONResponse({"upload": stored.id, "filename": stored.filename, "size_bytes": stored.size_bytes}, 201)


async def _read_form(visit: Visit) -> tuple[NewTaskForm, list[FieldError]]:
    """What was typed. A file that came with it, where no script sends it before, is stored."""
    size = visit.request.headers.get("content-length", "")
    if not size.isdecimal() or int(size) > _FORM_UPLOAD_BYTES:
        limit = _FORM_UPLOAD_BYTES >> 20
        raise ValidationFailed(
            [FieldError("file", "too_large", f"without scripts a file may have {limit} MiB; use `minions submit`")]
        )
    async with _given(visit) as given:
        form = NewTaskForm.read({name: value for name, value in given.multi_items() if isinstance(value, str)})
        file = given.get("file")
        if not isinstance(file, UploadFile) or not file.filename or form.source != "file":
            return form, []
        try:
            stored = await store_upload(visit.deployment, visit.token, file.filename, file.size or 0, _read(file))
        except ValidationFailed as error:
            return form, error.errors
        return _with_upload(form, stored), []


@asynccontextmanager
async def _given(visit: Visit) -> AsyncGenerator[FormData]:
    """The fields as they came. Raises ValidationFailed where one is longer than any may be, or the form is cut."""
    try:
        given = await visit.request.form(max_files=1, max_fields=100, max_part_size=_FIELD_BYTES)
    except HTTPException:
        message = f"it cannot be read; a field may have {_FIELD_BYTES >> 20} MiB, so save long pastes as a file"
        raise ValidationFailed([FieldError("form", "too_large", message)]) from None
    try:
        yield given
    finally:
        await given.close()


async def _read(file: UploadFile) -> AsyncGenerator[bytes]:
    while chunk := await file.read(_CHUNK_BYTES):
        yield chunk


async def _once(data: bytes) -> AsyncGenerator[bytes]:
    yield data


def _with_upload(form: NewTaskForm, stored: StoredUpload) -> NewTaskForm:
    return NewTaskForm({**form.values, "upload": stored.id, "filename": stored.filename})


async def _look(visit: Visit, form: NewTaskForm) -> InputPreview | None:
    """The beginning of the input; None while there is none."""
    if form.source == "lines":
        if (too_long := paste_error(form)) is not None:
            return InputPreview("", len(form["lines"]), 1, FirstRows(error=too_long), errors=[too_long])
        return preview_pasted(pasted_rows(form["lines"])) if form["lines"].strip() else None
    inputs = form.inputs()
    if not inputs:
        return None
    if wrong := uri_errors(form):
        return InputPreview("", 0, 0, FirstRows(error=wrong[0]), errors=wrong)
    look = await preview_input(visit.deployment, visit.token, inputs, form["input_format"] or None)
    told = [replace(each, message=in_words_of_the_form(each.message)) for each in look.errors]
    return replace(look, errors=told)


async def _form_page(visit: Visit, form: NewTaskForm, look: InputPreview | None, errors: Mapping[str, str]) -> Response:
    """The form as it was sent, with its errors: status 200, since the page is what was asked for, and a browser
    reports anything else as a fault of the page."""
    models = await visit.shared_view(("models",), 30.0, lambda: known_models(visit.deployment, visit.token))
    key = form["key"] or secrets.token_hex(16)
    response = visit.page(
        "tasks/new.html",
        errors=errors,
        labels=LABELS,
        models=models,
        key=key,
        most_pasted=MOST_PASTED,
        more_name=MORE_NAME,
        **await _shown(visit, form, look),
    )
    # Back to a form must lead to it, as it was: what was sent to one can be had from the browser's cache alone.
    response.headers["Cache-Control"] = "private, no-cache"
    return response


async def _shown(visit: Visit, form: NewTaskForm, look: InputPreview | None) -> dict[str, Any]:
    """What the preview shows: the input, what rows become, how long it would take, and the same task elsewhere."""
    request, _ = request_of(
        NewTaskForm({**form.values, "model": form["model"] or "hf:…/…"}), _named_inputs(form) or [EXAMPLE_UPLOAD]
    )
    rows = look.first.seen.rows if look is not None and look.first.seen is not None else []
    estimate: Estimate | None = None
    if look is not None and look.size_bytes and form["model"].strip() and request is not None:
        parameters = row_parameters(request)
        estimate = await estimate_task(visit.deployment, visit.token, request.model, parameters, look.size_bytes)
    is_right = look is not None and request is not None and _would_be_taken(form, look, request)
    return {
        "form": form,
        "found": look,
        "samples": sample_rows(rows, row_parameters(request)) if request is not None else [],
        "check": check_rows(rows, row_parameters(request)) if request is not None and rows else None,
        "estimate": estimate,
        "same": same_task(_text_of(form, request), visit.server_address) if request and is_right else None,
        "is_right": is_right,
        "request_known": request is not None,
    }


def _would_be_taken(form: NewTaskForm, look: InputPreview, request: SubmitRequest) -> bool:
    """Whether the same task, made elsewhere, would not be refused for what is known already."""
    wrong = not form["model"].strip() or look.errors or column_errors(look.first, request.parameters, look.name)
    return not wrong and not errors_of_names(form)


def _text_of(form: NewTaskForm, request: SubmitRequest) -> TaskText:
    return TaskText(
        team=request.team,
        project=request.project,
        task_name=request.task_name or "",
        model=request.model,
        parameters=row_parameters(request),
        inputs=request.inputs if form.source == "uri" else (),
        file=form["filename"] or "rows.jsonl" if form.source == "file" else "",
        pasted=pasted_rows(form["lines"]).decode() if form.source == "lines" else "",
        input_format=request.input_format,
        output_format=request.output_format,
        priority=request.priority,
    )
