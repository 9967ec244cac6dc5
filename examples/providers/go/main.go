// A Terraform provider in Go: notes, which are files of a folder. Their type is `note_note`.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/list"
	listschema "github.com/hashicorp/terraform-plugin-framework/list/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	providerschema "github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// folder is where the notes are: told to the provider, used by its resources.
type folder string

// file is where a note is. A title is no way out of the folder.
func (f folder) file(id string) string {
	return filepath.Join(string(f), strings.ReplaceAll(id, "/", "_"))
}

// note is one, as its schema says.
type note struct {
	ID    types.String `tfsdk:"id"`
	Title types.String `tfsdk:"title"`
	Text  types.String `tfsdk:"text"`
}

// identity tells a note from all others.
type identity struct {
	ID types.String `tfsdk:"id"`
}

// notes is the resource type.
type notes struct{ folder folder }

func (n *notes) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_note"
}

func (n *notes) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		Version:     1,
		Description: "A note",
		Attributes: map[string]schema.Attribute{
			"id": schema.StringAttribute{
				Description: "Name of its file",
				Computed:    true,
				// It stays as it is for as long as the note does.
				PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
			},
			"title": schema.StringAttribute{
				Description:   "What it is called; another one is another note",
				Required:      true,
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
			},
			"text": schema.StringAttribute{Description: "What it says", Optional: true},
		},
	}
}

func (n *notes) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = identityschema.Schema{
		Attributes: map[string]identityschema.Attribute{
			"id": identityschema.StringAttribute{RequiredForImport: true},
		},
	}
}

func (n *notes) Configure(_ context.Context, req resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	n.folder, _ = req.ProviderData.(folder)
}

func (n *notes) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var title types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("title"), &title)...)
	if !title.IsNull() && !title.IsUnknown() && title.ValueString() == "" {
		resp.Diagnostics.AddAttributeError(path.Root("title"), "a note has a title", "")
	}
}

// write puts a note down, and says what it is then.
func (n *notes) write(planned note) (note, error) {
	planned.ID = planned.Title
	return planned, os.WriteFile(n.folder.file(planned.ID.ValueString()), []byte(planned.Text.ValueString()), 0o644)
}

func (n *notes) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var planned note
	resp.Diagnostics.Append(req.Plan.Get(ctx, &planned)...)
	if resp.Diagnostics.HasError() {
		return
	}
	made, err := n.write(planned)
	if err != nil {
		resp.Diagnostics.AddError("write a note", err.Error())
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, made)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, identity{made.ID})...)
}

func (n *notes) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var known note
	resp.Diagnostics.Append(req.State.Get(ctx, &known)...)
	if resp.Diagnostics.HasError() {
		return
	}
	found, err := n.read(known)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		resp.State.RemoveResource(ctx)
	// What cannot be read is not gone.
	case err != nil:
		resp.Diagnostics.AddError("read a note", err.Error())
	default:
		resp.Diagnostics.Append(resp.State.Set(ctx, found)...)
		resp.Diagnostics.Append(resp.Identity.Set(ctx, identity{found.ID})...)
	}
}

// read says what a note is now.
func (n *notes) read(known note) (note, error) {
	text, err := os.ReadFile(n.folder.file(known.ID.ValueString()))
	if err != nil {
		return known, err
	}
	// One that was found by its id has no title yet.
	known.Title = known.ID
	// An empty file is one of a note that says nothing.
	if len(text) > 0 || !known.Text.IsNull() {
		known.Text = types.StringValue(string(text))
	}
	return known, nil
}

func (n *notes) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var planned note
	resp.Diagnostics.Append(req.Plan.Get(ctx, &planned)...)
	if resp.Diagnostics.HasError() {
		return
	}
	changed, err := n.write(planned)
	if err != nil {
		resp.Diagnostics.AddError("write a note", err.Error())
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, changed)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, identity{changed.ID})...)
}

func (n *notes) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var known note
	resp.Diagnostics.Append(req.State.Get(ctx, &known)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if err := os.Remove(n.folder.file(known.ID.ValueString())); err != nil && !errors.Is(err, fs.ErrNotExist) {
		resp.Diagnostics.AddError("remove a note", err.Error())
	}
}

// ImportState gives back the id, or what the identity says; the next read fills in the rest.
func (n *notes) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	resource.ImportStatePassthroughWithIdentity(ctx, path.Root("id"), path.Root("id"), req, resp)
}

// listed says what notes there are, for `reconciled import` and `terraform query`.
type listed struct{ folder folder }

func (l *listed) Metadata(ctx context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	(&notes{}).Metadata(ctx, req, resp)
}

func (l *listed) ListResourceConfigSchema(_ context.Context, _ list.ListResourceSchemaRequest, resp *list.ListResourceSchemaResponse) {
	resp.Schema = listschema.Schema{
		Attributes: map[string]listschema.Attribute{
			"prefix": listschema.StringAttribute{Description: "Only notes whose titles begin so", Optional: true},
		},
	}
}

func (l *listed) Configure(_ context.Context, req resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	l.folder, _ = req.ProviderData.(folder)
}

func (l *listed) List(ctx context.Context, req list.ListRequest, stream *list.ListResultsStream) {
	var asked struct {
		Prefix types.String `tfsdk:"prefix"`
	}
	if diags := req.Config.Get(ctx, &asked); diags.HasError() {
		stream.Results = list.ListResultsStreamDiagnostics(diags)
		return
	}
	stream.Results = func(push func(list.ListResult) bool) {
		files, err := os.ReadDir(string(l.folder))
		if err != nil {
			result := req.NewListResult(ctx)
			// Half of a list would look like all of it.
			result.Diagnostics.AddError("list notes", err.Error())
			push(result)
			return
		}
		var count int64
		for _, file := range files {
			if file.IsDir() || !strings.HasPrefix(file.Name(), asked.Prefix.ValueString()) {
				continue
			}
			if count++; count > req.Limit {
				return
			}
			result := req.NewListResult(ctx)
			result.DisplayName = file.Name()
			result.Diagnostics.Append(result.Identity.Set(ctx, identity{types.StringValue(file.Name())})...)
			if req.IncludeResource {
				found, err := (&notes{l.folder}).read(note{ID: types.StringValue(file.Name())})
				if err != nil {
					result.Diagnostics.AddError("read a note", err.Error())
				}
				result.Diagnostics.Append(result.Resource.Set(ctx, found)...)
			}
			if !push(result) {
				return
			}
		}
	}
}

// noteProvider is the provider itself.
type noteProvider struct{}

func (p *noteProvider) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName = "note"
}

func (p *noteProvider) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = providerschema.Schema{
		Attributes: map[string]providerschema.Attribute{
			"directory": providerschema.StringAttribute{Description: "The folder with the notes", Required: true},
		},
	}
}

func (p *noteProvider) Configure(ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	var directory types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("directory"), &directory)...)
	notes := folder(directory.ValueString())
	if _, err := os.Stat(string(notes)); err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("directory"), "there is no such folder", fmt.Sprint(err))
	}
	resp.ResourceData, resp.ListResourceData = notes, notes
}

func (p *noteProvider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{func() resource.Resource { return &notes{} }}
}

func (p *noteProvider) DataSources(context.Context) []func() datasource.DataSource { return nil }

func (p *noteProvider) ListResources(context.Context) []func() list.ListResource {
	return []func() list.ListResource{func() list.ListResource { return &listed{} }}
}

// What is implemented beside the least, so that a method that is misspelt is an error.
var (
	_ resource.ResourceWithConfigure      = &notes{}
	_ resource.ResourceWithIdentity       = &notes{}
	_ resource.ResourceWithImportState    = &notes{}
	_ resource.ResourceWithValidateConfig = &notes{}
	_ list.ListResourceWithConfigure      = &listed{}
	_ provider.ProviderWithListResources  = &noteProvider{}
)

func main() {
	options := providerserver.ServeOpts{Address: "registry.terraform.io/example/note"}
	make := func() provider.Provider { return &noteProvider{} }
	if err := providerserver.Serve(context.Background(), make, options); err != nil {
		log.Fatal(err)
	}
}
